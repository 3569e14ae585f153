"""What a review reads of the cluster: caches that follow the informers' stores, and one of SubjectAccessReviews."""
