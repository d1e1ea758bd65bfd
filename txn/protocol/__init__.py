"""What transactions ask of coordinators, and what the answers mean."""
