package informer

var BuiltIn = builtIn
