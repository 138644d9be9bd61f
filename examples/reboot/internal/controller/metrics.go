package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// A collector measures the cached groups and nodes for each scrape.
type collector struct {
	c       *Controller
	metrics map[string]*prometheus.Desc
}

// Collector returns the metrics of the groups:
//
//	reboot_group_nodes, reboot_group_max_unavailable, reboot_group_slots   by group
//	reboot_group_requests                   requests that wait for a slot
//	reboot_group_oldest_request_seconds     age of the oldest request, 0 without one
//	reboot_group_oldest_slot_seconds        age of the oldest slot, 0 without one
//	reboot_group_blocked_drains             nodes on which evictions are refused
//	reboot_group_held_back                  nodes that wait for a person, because reboots do not help
//	reboot_group_condition{type}            1 if the condition is True, else 0
func (c *Controller) Collector() prometheus.Collector {
	m := &collector{c: c, metrics: map[string]*prometheus.Desc{}}
	for name, help := range map[string]string{
		"nodes":                  "Nodes that belong to the group.",
		"max_unavailable":        "How many nodes of the group may be unavailable at once.",
		"slots":                  "Nodes that are being rebooted, or are about to be.",
		"requests":               "Requests that wait for a slot.",
		"oldest_request_seconds": "How long the oldest request has waited for a slot; 0 if no request waits.",
		"oldest_slot_seconds":    "How long the oldest slot has been held; 0 if no slot is held.",
		"blocked_drains":         "Nodes on which evictions are refused.",
		"held_back":              "Nodes that are not rebooted until a person finds out why reboots do not help.",
	} {
		m.metrics[name] = prometheus.NewDesc("reboot_group_"+name, help, []string{"group"}, nil)
	}
	m.metrics["condition"] = prometheus.NewDesc("reboot_group_condition",
		"Whether the condition of the group is True.", []string{"group", "type"}, nil)
	return m
}

// Describe sends all descriptions.
func (m *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range m.metrics {
		out <- d
	}
}

// Collect measures every group in the cache.
func (m *collector) Collect(out chan<- prometheus.Metric) {
	now := m.c.options.Now()
	for group := range m.c.groupCache.Snapshot().All() {
		for name, value := range m.c.measure(group, now) {
			out <- prometheus.MustNewConstMetric(m.metrics[name], prometheus.GaugeValue, value, group.Name)
		}
		for _, condition := range group.Status.Conditions {
			value := 0.0
			if condition.Status == "True" {
				value = 1
			}
			out <- prometheus.MustNewConstMetric(m.metrics["condition"], prometheus.GaugeValue, value,
				group.Name, condition.Type)
		}
	}
}

// heldFast returns the number of nodes that wait for a person.
func (c *Controller) heldFast(group *api.RebootGroup, now time.Time) int {
	facts := rules.Facts{Group: group, Queue: group.Status.Queue, Now: now}
	for _, w := range group.Status.Queue {
		if node := c.cachedNode(w.Node); node != nil {
			facts.Members = append(facts.Members, node)
		}
	}
	return len(facts.HeldFast())
}

func (c *Controller) measure(group *api.RebootGroup, now time.Time) map[string]float64 {
	s := &group.Status
	values := map[string]float64{
		"nodes": float64(s.Nodes), "max_unavailable": float64(s.Limit),
		"slots": float64(len(s.Slots)), "requests": float64(len(s.Queue)),
		"oldest_request_seconds": 0, "oldest_slot_seconds": 0, "blocked_drains": 0,
		"held_back": float64(c.heldFast(group, now)),
	}
	for _, w := range s.Queue {
		values["oldest_request_seconds"] = max(values["oldest_request_seconds"], now.Sub(w.Since.Time).Seconds())
	}
	for _, slot := range s.Slots {
		values["oldest_slot_seconds"] = max(values["oldest_slot_seconds"], now.Sub(slot.Since.Time).Seconds())
		if node := c.cachedNode(slot.Node); node != nil {
			if p := protocol.Read(node).InProgress; p != nil && p.Blocked != "" {
				values["blocked_drains"]++
			}
		}
	}
	return values
}
