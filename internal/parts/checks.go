package parts

// InformerCheck returns the name of an informer's check in /readyz. For
// example, the check of the informer pods is informer/pods.
func InformerCheck(informer string) string { return "informer/" + informer }

// ControllerCheck returns the name of a controller's check.
func ControllerCheck(controller string) string { return "controller/" + controller }

// LeaderCheck returns the name of the check of a controller's leadership.
func LeaderCheck(controller string) string { return "leader/" + controller }
