"""What is planned for one GPUPool: operands, Maintenance, status and conditions. Pure."""
