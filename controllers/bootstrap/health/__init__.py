"""Whether a card is faulted: samples of DCGM's exporter become the condition Faulted of a GPUDevice. Pure."""
