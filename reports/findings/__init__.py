"""Ten questions to the results: each answer is a sentence, and tables with the numbers behind it."""
