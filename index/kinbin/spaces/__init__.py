"""What is compared, and how near is near."""
