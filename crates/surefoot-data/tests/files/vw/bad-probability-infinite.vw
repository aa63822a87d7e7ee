1:0:inf | a
