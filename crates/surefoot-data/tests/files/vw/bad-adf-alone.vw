shared | a
