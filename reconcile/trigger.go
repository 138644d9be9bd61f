package reconcile

// A Trigger tells for which keys a turn is due when an object of another
// informer changes. What a controller writes, it must watch: give it a Trigger
// for every kind that it creates or edits, or nobody repairs what somebody
// else breaks. Triggers are made by [Owned] and [Mapped].
type Trigger interface {
	source() source
	// sort is "owned" or "mapped".
	sort() string
	// attach starts feeding c and returns what serves the trigger until the
	// controller stops; detach ends the feed.
	attach(c *Controller) (binding, error)
}
