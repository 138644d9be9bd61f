// Package inspect describes controllers of package reconcile to people, probes
// and metrics: what they are doing, what they have done, and why a key waits.
//
// Methods of reconcile.Controller return these types; packages metrics and status
// show them. They are copies, so they may be kept, and hold names,
// resourceVersions and errors, but nothing else of any object.
//
//	Controller.Status ──▶ Status ─┬─▶ TriggerStatus ──Feeds── InformerStatus ◀── Informers
//	                              ├─▶ KeyStatus
//	                              └─▶ shard.SlotStatus
//	Controller.Stats ───▶ Stats, by Outcome
//	Controller.History ─▶ Attempt ──▶ Write
package inspect
