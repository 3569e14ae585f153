"""What comes before the module's processes and after them: its custom resources' definitions, and the clean-up."""
