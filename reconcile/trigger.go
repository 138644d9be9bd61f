package reconcile

// A Trigger maps changes of another informer's objects, or what happens outside
// the cluster, to keys to reconcile. What a controller writes, it must watch:
// give it a Trigger for every kind that it creates or edits, or it does not
// notice what other clients change there. Triggers are made by [Owned], [Mapped]
// and [External].
type Trigger interface {
	source() source // nil for an external one
	// triggerType is "owned", "mapped" or "external".
	triggerType() string
	// attach starts feeding c and returns what serves the trigger until the
	// controller stops; detach ends the feed.
	attach(c *Controller) (binding, error)
}
