// Package trial has the tests of the reboot operator's programs on a real API
// server: bad input, minimal permissions, and facts that only a real server
// knows, such as the owners of fields.
//
// The roll of twelve nodes is tested in the demo's package roll.
package trial
