package program

// FromHere is for tests.
var FromHere = fromHere
