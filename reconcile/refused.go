package reconcile

import (
	"errors"
	"fmt"
	"github.com/homeostat/homeostat/reconcile/inspect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// refusedFor is how long every write must have been refused until [Controller.Refused] says so.
const refusedFor = time.Minute

// forbiddenWrite is how the API server says which permission for a write is missing.
var forbiddenWrite = regexp.MustCompile( //nolint:gochecknoglobals // compiled once
	`cannot (create|update|patch|delete|deletecollection) resource "([^"]+)" in API group "([^"]*)"` +
		`(?: in the namespace "([^"]*)")?`)

// missingPermission returns the permission without which a write failed, such as
// `patch deployments.apps in namespace "default"`, and "" if err is something else.
func missingPermission(err error) string {
	found := forbiddenWrite.FindStringSubmatch(err.Error())
	if found == nil {
		return ""
	}
	verb, resource, group, namespace := found[1], found[2], found[3], found[4]
	what, subresource, _ := strings.Cut(resource, "/")
	if group != "" {
		what += "." + group
	}
	if subresource != "" {
		what += "/" + subresource
	}
	if namespace == "" {
		return verb + " " + what + " at the cluster scope"
	}
	return fmt.Sprintf("%s %s in namespace %q", verb, what, namespace)
}

// Refused returns nil, or an error that names the missing permissions if the API
// server has refused every write for a minute and keys still fail because of that.
func (c *Controller) Refused() error {
	if c.Phase() != inspect.Working {
		return nil
	}
	since, missing := c.failures.refused()
	if len(missing) == 0 || time.Since(since) < refusedFor {
		return nil
	}
	const most = 3
	if more := len(missing) - most; more > 0 {
		missing = append(missing[:most], fmt.Sprintf("%d more", more))
	}
	return errors.New("every write has been refused for more than a minute; missing permissions: " +
		strings.Join(missing, ", "))
}

// refused returns since when every write has been refused, and for want of which
// permissions.
func (f *failures) refused() (since time.Time, missing []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, failed := range f.byKey {
		if failed.missing == "" {
			continue
		}
		if since.IsZero() || failed.since.Before(since) {
			since = failed.since
		}
		missing = append(missing, failed.missing)
	}
	if written := time.Unix(0, f.written.Load()); written.After(since) {
		since = written
	}
	slices.Sort(missing)
	return since, slices.Compact(missing)
}
