"""Calendar and clock: civil dates, time zones, date patterns, all over whole columns."""
