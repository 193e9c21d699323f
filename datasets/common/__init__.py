"""What every folder uses: errors, files, options, random numbers, progress, threads; no torch."""
