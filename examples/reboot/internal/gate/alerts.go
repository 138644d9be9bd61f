package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	prometheus "github.com/prometheus/client_golang/api"
	prometheusv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Alerts forbids reboots while a query of Prometheus has a result or fails.
type Alerts struct {
	url, query string
	api        prometheusv1.API
}

// NewAlerts returns the check of a query, such as ALERTS{alertstate="firing"}.
// It returns an error if the URL or the query is empty, or if the URL is
// malformed.
func NewAlerts(url, query string) (*Alerts, error) {
	if url == "" || query == "" {
		return nil, errors.New("configuring the alerts that block reboots: set both the URL of Prometheus and a query")
	}
	client, err := prometheus.NewClient(prometheus.Config{Address: url})
	if err != nil {
		return nil, fmt.Errorf("configuring the alerts that block reboots: %w", err)
	}
	return &Alerts{url, query, prometheusv1.NewAPI(client)}, nil
}

// Blocked returns a text that names at most five of the alerts in the result of
// the query, or the empty string if the result is empty. A series without an
// alert name is shown with its labels. If the query fails, or if its result is
// not an instant vector, Blocked returns a description of the problem.
func (a *Alerts) Blocked(ctx context.Context) string {
	value, _, _, err := a.api.Query(ctx, a.query, time.Now())
	if err != nil {
		return fmt.Sprintf("querying Prometheus at %s with %s: %v", a.url, a.query, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return fmt.Sprintf("the result of the query %s is a %s: must be an instant vector", a.query, value.Type())
	}
	var names []string
	for _, sample := range vector {
		name := string(sample.Metric[model.AlertNameLabel])
		if name == "" {
			name = sample.Metric.String()
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return ""
	}
	return "Prometheus has " + abbreviate(names)
}
