package protocol

// The annotations of a node.
const (
	Prefix = "reboot.homeostat.dev/"
	// Needed asks for a reboot; its value is the request, any short text.
	Needed = Prefix + "reboot-needed"
	// Paused keeps a node from being rebooted while it is "true".
	Paused = Prefix + "reboot-paused"
	// Now tells the agent to reboot: a [Grant] as JSON.
	Now = Prefix + "reboot-now"
	// InProgress is the agent's state: a [Progress] as JSON.
	InProgress = Prefix + "reboot-in-progress"
	// Permit lets the agent tell its machine to reboot now: a [Permission] as JSON.
	Permit = Prefix + "reboot-permit"
	// Recent has the controller's latest permits: a list of [Told] as JSON.
	Recent = Prefix + "recent-reboots"
	// Void is the last epoch in which no reboot may be granted any longer: a
	// number. The controller sets it before it gives back an unused slot.
	Void = Prefix + "reboot-void"
	// LastReboot is the result of the last one: an [Outcome] as JSON.
	LastReboot = Prefix + "last-reboot"
)

// AgentManager is the field manager of the agent: by it the agent tells its own
// cordon from that of another client.
const AgentManager = "reboot-agent"

// MaxRequest is how many bytes a request may have: it is copied into the ledger.
const MaxRequest = 253
