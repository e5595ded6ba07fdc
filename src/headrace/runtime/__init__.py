"""Carries out the plan: memory, reads, workers, batches and what they cost. It plans nothing itself."""
