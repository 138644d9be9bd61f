// Package trial has the tests of the reboot operator's programs on a real API
// server: what bad input gets, what least permissions allow, and what only a real
// server knows, such as who set which field.
//
// The roll of twelve nodes is tested in the demo's package roll.
package trial
