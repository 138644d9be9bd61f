package informer

// BuiltIn is builtIn for tests.
var BuiltIn = builtIn
