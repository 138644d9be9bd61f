// Package trial contains the tests of the reboot operator's programs on a real
// API server. They cover bad input, minimal permissions, and facts that only a
// real server knows, such as the owners of fields.
//
// The demo's package roll tests a roll of twelve nodes.
package trial
