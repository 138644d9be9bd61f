package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/internal/suspect"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Cluster is another cluster of a [Program], besides the one of --kubeconfig.
type Cluster struct {
	// Name is a DNS label. For example, with the name "west" the program has
	// the flag --west-kubeconfig, [Env.Clusters] has the key "west", and
	// [Program.Needs] can contain "list pods on west".
	Name string
	// Optional lets the program start and be ready without this cluster. For
	// example, the cluster may not answer, may refuse a permission, may lack a
	// kind, or its kubeconfig may be unreadable. /readyz then names the problem
	// but stays 200, and the program asks again until the cluster is usable.
	// All controllers of the cluster must have reconcile.Options.Optional. They
	// then start later without a restart. Defaults to false: the program exits
	// if the cluster does not answer in time at the start.
	Optional bool
}

const (
	// answerTimeout bounds each attempt to check a server. One attempt may send
	// several requests.
	answerTimeout = 15 * time.Second
	// checkInterval is the interval at which a healthy cluster is checked.
	checkInterval = 30 * time.Second
	// firstDelay is the delay after the first failed attempt. It doubles with
	// each further failure.
	firstDelay = 250 * time.Millisecond
	// longestDelay is the longest delay after a failed check of a cluster.
	longestDelay = 10 * time.Second
)

// remote watches the health of one of Program.Clusters.
type remote struct {
	name     string
	unfenced *cluster.Cluster // the cluster without the fence, because a fence would refuse the POST of a review
	kinds    *cluster.Cluster // the cluster that Setup used; it knows which kinds are needed
	needs    []permission
	file     *kubeconfig

	admitted bool // whether all needs and kinds have been confirmed once

	asked   chan error // receives the result of the check under way, if there is one
	askedAt time.Time  // when the check under way began

	mu      sync.Mutex // guards problem
	problem *inspect.Problem
}

// watch checks the cluster repeatedly, until ctx ends.
func (r *remote) watch(ctx context.Context) {
	backoff := firstDelay
	for {
		err := r.answer(ctx)
		if ctx.Err() != nil {
			return
		}
		r.note(ctx, err)
		pause := checkInterval
		if err != nil {
			pause, backoff = backoff, min(2*backoff, longestDelay)
		} else {
			backoff = firstDelay
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// answer returns the result of a check. If the check takes longer than its
// requests may take, answer returns an error, and the next call waits for the
// same check instead of starting another. This happens if something in the
// program holds a request and ignores its context, as client-go does until the
// credential plugin of the kubeconfig has returned.
func (r *remote) answer(ctx context.Context) error {
	if r.asked == nil {
		asked := make(chan error, 1)
		r.asked, r.askedAt = asked, time.Now()
		go func() { asked <- r.ask(ctx) }()
	}
	timer := time.NewTimer(answerTimeout + time.Second)
	defer timer.Stop()
	select {
	case err := <-r.asked:
		r.asked = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("no answer for %s: perhaps the credential plugin of the kubeconfig does not return",
			time.Since(r.askedAt).Round(time.Second))
	}
}

// ask checks the cluster once. It asks for the permissions and the kinds that
// the program needs. Once all of them have been confirmed, it asks only whether
// the server answers.
func (r *remote) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if !r.admitted {
		err := review(ctx, r.unfenced.Client(), r.needs)
		if err == nil {
			err = r.kinds.Check(ctx)
		}
		r.admitted = err == nil
		return err
	}
	result := r.unfenced.Client().CoreV1().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx)
	answer, _ := result.Raw()
	var info version.Info
	switch err := result.Error(); {
	case absent.IsForeign(err):
		return err // a proxy has answered
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err): //nolint:forbidigo // nothing is concluded about an object
		return nil // the API server has answered
	case err == nil && (json.Unmarshal(answer, &info) != nil || info.GitVersion == ""):
		return suspect.Answerf("the answer to GET /version is not from the API server")
	default:
		return err
	}
}

// note stores err as the cluster's problem, or removes the problem if err is
// nil. It logs when the cause of the problem changes, and when the problem has
// ended.
func (r *remote) note(ctx context.Context, err error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("cluster", r.name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		if r.problem != nil {
			log.Info("the cluster is usable again")
		}
		r.problem = nil
		return
	}
	p := problemOf(redact.Address(r.unfenced.Config().Host), err)
	if r.problem != nil && r.problem.Cause == p.Cause {
		p.Since = r.problem.Since
	} else {
		log.Error(err, "the cluster is not usable, retrying", "cause", p.Cause)
	}
	r.problem = &p
}

// problemOf returns the problem of a cluster. err is the error of the last
// request to its server at host.
func problemOf(host string, err error) inspect.Problem {
	p := inspect.Problem{Reason: err.Error(), Since: time.Now()}
	switch {
	case errors.Is(err, ErrPermission):
		p.Cause = "missing permission"
	case errors.Is(err, cluster.ErrKind):
		p.Cause = "missing kind"
	case apierrors.IsUnauthorized(err) && !absent.IsForeign(err):
		p.Cause, p.Remedy = "Unauthorized", "replace the credentials in the kubeconfig of the cluster"
	default:
		p.Cause, p.Reason = "no answer", fmt.Sprintf("the API server at %s does not answer: %v", host, err)
	}
	return p
}

// problems returns the problems of the cluster and of its kubeconfig.
func (r *remote) problems() []inspect.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	problems := r.file.problems("cluster/" + r.name)
	if r.problem != nil && !r.file.isUnread() {
		p := *r.problem
		p.Check = "cluster/" + r.name
		problems = append(problems, p)
	}
	return problems
}

// isOptional reports whether the program can run without the cluster.
func (p Program) isOptional(name string) bool {
	return slices.ContainsFunc(p.Clusters, func(c Cluster) bool { return c.Name == name && c.Optional })
}

// clusterNames returns the names of Program.Clusters.
func (p Program) clusterNames() []string {
	var names []string
	for _, c := range p.Clusters {
		names = append(names, c.Name)
	}
	return names
}

// watchClusters checks Program.Clusters in goroutines, until stop is called.
func (p Program) watchClusters(ctx context.Context, env Env, files map[string]*kubeconfig, f *flags) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	for _, c := range p.Clusters {
		r := &remote{
			name: c.Name, unfenced: env.asker.clusters[c.Name], kinds: env.Clusters[c.Name], file: files[c.Name],
			admitted: !c.Optional,
		}
		if p.Needs != nil && c.Optional {
			r.needs = slices.DeleteFunc(p.needs(f), func(need permission) bool {
				return need.cluster != c.Name || need.mayBeMissing
			})
		}
		reportProblems(ctx, r.problems)
		watching.Go(func() { r.watch(ctx) })
	}
	return func() {
		cancel()
		watching.Wait()
	}
}

// readers are the controllers of a program. Each of them reads from one API
// server.
type readers []*reconcile.Controller

// dispensable returns the resources on a server that no required controller
// watches, but an optional one does.
func (r readers) dispensable(server string) []schema.GroupResource {
	needed := map[schema.GroupResource]bool{}
	for _, i := range inspect.Informers(r...) {
		if i.Server == server {
			needed[i.Resource] = needed[i.Resource] || !i.Optional
		}
	}
	var resources []schema.GroupResource
	for resource, required := range needed {
		if !required {
			resources = append(resources, resource)
		}
	}
	return resources
}

// required returns a controller that reads from the server and is not optional,
// or nil.
func (r readers) required(server string) *reconcile.Controller {
	for _, c := range r {
		if !c.Status(0).Optional && c.Informers()[0].Server == server {
			return c
		}
	}
	return nil
}

// serverOf returns the URL of a cluster's server in the form that informers
// report it.
func serverOf(c *cluster.Cluster) string {
	u, _, err := rest.DefaultServerUrlFor(c.Config())
	if err != nil { // cannot happen: cluster.New has checked the config
		u = &url.URL{}
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/")
}
