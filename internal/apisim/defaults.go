package apisim

// defaults are those of built-in kinds that programs read without looking whether they are there, since the real server
// never leaves them out: by group/resource and field of the spec. The others are not set.
var defaults = map[string]map[string]any{
	"/replicationcontrollers": {"replicas": int64(1)},
	"apps/deployments": {
		"replicas": int64(1), "revisionHistoryLimit": int64(10), "progressDeadlineSeconds": int64(600),
	},
	"apps/replicasets":  {"replicas": int64(1)},
	"apps/statefulsets": {"replicas": int64(1), "revisionHistoryLimit": int64(10)},
	"apps/daemonsets":   {"revisionHistoryLimit": int64(10)},
	"autoscaling/horizontalpodautoscalers": {
		"minReplicas": int64(1),
	},
	"batch/jobs":     {"backoffLimit": int64(6), "suspend": false, "completionMode": "NonIndexed"},
	"batch/cronjobs": {"suspend": false, "concurrencyPolicy": "Allow"},
	"/services":      {"type": "ClusterIP"},
}

// setDefaults sets them after every write: an update without replicas means one, not those that there are.
func setDefaults(r *Resource, obj object) {
	missing := r.builtin.defaults
	if missing == nil {
		return
	}
	spec := asObject(obj["spec"])
	if spec == nil {
		return
	}
	for k, v := range missing {
		if spec[k] == nil {
			spec[k] = v
		}
	}
	if r.Resource == "jobs" && spec["parallelism"] == nil {
		spec["parallelism"] = int64(1)
		if spec["completions"] == nil {
			spec["completions"] = int64(1)
		}
	}
}
