package protocol

// The annotations of a node.
const (
	Prefix = "reboot.homeostat.dev/"
	// Needed requests a reboot. Its value is the request, which can be any text
	// of at most [MaxRequest] bytes without control characters.
	Needed = Prefix + "reboot-needed"
	// Paused prevents the reboot of a node while its value is "true", and also
	// while its value is invalid. A reboot that the agent has accepted is not
	// stopped.
	Paused = Prefix + "reboot-paused"
	// Now grants the reboot to the agent. Its value is a [Grant] as JSON.
	Now = Prefix + "reboot-now"
	// InProgress is the agent's state. Its value is a [Progress] as JSON.
	InProgress = Prefix + "reboot-in-progress"
	// Permit lets the agent tell its machine to reboot now. Its value is a
	// [Permission] as JSON.
	Permit = Prefix + "reboot-permit"
	// Recent contains the reboots that the controller has permitted recently.
	// They count for spec.maxReboots of the group. Its value is a list of
	// [Told] as JSON.
	Recent = Prefix + "recent-reboots"
	// Void is the number of the last void epoch. Reboots of this epoch and
	// earlier ones cannot be granted any more. The controller sets it before it
	// releases an unused slot.
	Void = Prefix + "reboot-void"
	// LastReboot is the result of the last reboot. Its value is an [Outcome] as
	// JSON.
	LastReboot = Prefix + "last-reboot"
)

// AgentManager is the field manager of the agent, by which it recognizes its
// own cordon.
const AgentManager = "reboot-agent"

// MaxRequest is the longest request in bytes. The request is copied into the
// ledger.
const MaxRequest = 253
