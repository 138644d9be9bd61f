package controller_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/deploy"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
)

// measured returns the gauges with the label group, by name and type.
func (s *stage) measured() map[string]float64 {
	registry := prometheus.NewPedanticRegistry()
	s.Expect(registry.Register(s.controller.Collector())).To(gomega.Succeed())
	families, err := registry.Gather()
	s.Expect(err).NotTo(gomega.HaveOccurred())
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				if label.GetName() == "type" {
					name += " " + label.GetValue()
				}
			}
			all[name] = metric.GetGauge().GetValue()
		}
	}
	return all
}

func TestMetricsTellOfTheGroups(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1")
		s.pass(time.Second) // it has the slot
		s.change("n1", accepted(`"drainSeconds":6000`))
		s.asking("n2", "n3")
		s.pass(10 * time.Minute)
		s.Expect(s.measured()).To(gomega.And(
			gomega.HaveKeyWithValue("reboot_group_nodes", 3.0), gomega.HaveKeyWithValue("reboot_group_max_unavailable", 1.0),
			gomega.HaveKeyWithValue("reboot_group_slots", 1.0), gomega.HaveKeyWithValue("reboot_group_requests", 2.0),
			gomega.HaveKeyWithValue("reboot_group_oldest_request_seconds", gomega.BeNumerically("~", 600, 2)),
			gomega.HaveKeyWithValue("reboot_group_oldest_slot_seconds", gomega.BeNumerically("~", 600, 2)),
			gomega.HaveKeyWithValue("reboot_group_blocked_drains", 0.0),
			gomega.HaveKeyWithValue("reboot_group_condition Valid", 1.0), gomega.HaveKeyWithValue("reboot_group_condition Stuck", 0.0),
		))
		s.change("n1", accepted(`"drainSeconds":6000,"blocked":"Pod a/b: budget"`))
		s.pass(controller.DefaultStuckAfter)
		s.Expect(s.measured()).To(gomega.And(
			gomega.HaveKeyWithValue("reboot_group_blocked_drains", 1.0), gomega.HaveKeyWithValue("reboot_group_condition Stuck", 1.0),
			gomega.HaveKeyWithValue("reboot_group_condition Drained", 0.0),
		))
		problems, err := testutil.CollectAndLint(s.controller.Collector())
		s.Expect(err).NotTo(gomega.HaveOccurred())
		s.Expect(problems).To(gomega.BeEmpty())
	})
}

func TestAlertsUseMetricsThatExist(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.pass(time.Minute)
		have := s.measured()
		used := regexp.MustCompile(`(reboot_group_\w+)(?:\{type="(\w+)"\})?`).FindAllStringSubmatch(deploy.Manifest("alerts.yaml"), -1)
		s.Expect(len(used)).To(gomega.BeNumerically(">=", 4))
		for _, match := range used {
			name := match[1]
			if match[2] != "" {
				name += " " + match[2]
			}
			s.Expect(have).To(gomega.HaveKey(name))
		}
	})
}
