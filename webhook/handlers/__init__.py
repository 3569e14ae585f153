"""What answers AdmissionReviews: one module for pods that are created, one for all other reviews."""
