// Package inspect describes controllers of package reconcile to people, probes
// and metrics: what they are doing, what they have done, and why a key is
// waiting.
//
//	for _, key := range controller.Status(10).Keys {
//		fmt.Println(key.Key, key.State, key.Failure)
//	}
//
// Methods of reconcile.Controller return these types; packages metrics and
// status show them. They are copies, so callers may retain them. They contain
// names, resourceVersions and errors, but no other content of objects.
//
//	Controller.Status ──▶ Status ─┬─▶ TriggerStatus ──Feeds── InformerStatus ◀── Informers
//	                              ├─▶ KeyStatus
//	                              └─▶ SlotStatus
//	Controller.Stats ───▶ Stats, by Outcome
//	Controller.History ─▶ Attempt ──▶ Write
package inspect
