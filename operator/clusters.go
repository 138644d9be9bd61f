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
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Cluster is a further cluster of a [Program].
type Cluster struct {
	// Name is a DNS label, such as "west". The flag --west-kubeconfig names the
	// cluster then, [Env.Clusters] has it as "west", and a need such as "list
	// pods on west" is about it.
	Name string
	// Optional lets the program work in the other clusters, and be ready, while
	// this one does not answer, refuses a permission, or lacks a kind, and even
	// while its kubeconfig cannot be read: /readyz names what is wrong and
	// stays 200, and the program asks again until all is well. All controllers
	// of the cluster must have reconcile.Options.Optional: they start by
	// themselves, without a restart. Defaults to false: the program ends at its
	// start if the cluster does not answer in time.
	Optional bool
}

const (
	// answerWithin is how long a server may take for one answer at the start,
	// and later for the question whether it is there.
	answerWithin = 15 * time.Second
	// askEvery is how often a further cluster is asked whether it is there.
	askEvery = 30 * time.Second
	// askAgain is how soon a server is asked again after a failure. It doubles
	// each time.
	askAgain = 250 * time.Millisecond
	// askAgainEvery is how often a further cluster is asked at least while it
	// fails.
	askAgainEvery = 10 * time.Second
)

// remote is one of Program.Clusters while the program runs.
type remote struct {
	name  string
	asks  *cluster.Cluster // not fenced: questions may be POSTs
	kinds *cluster.Cluster // of Setup
	needs []permission     // that have not been granted yet
	file  *kubeconfig

	admitted bool // what the program needs is there, or was at the start

	mu      sync.Mutex // guards problem
	problem *inspect.Problem
}

// watch asks the cluster whether it is there, until ctx ends.
func (r *remote) watch(ctx context.Context) {
	again := askAgain
	for {
		err := r.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		r.note(ctx, err)
		pause := askEvery
		if err != nil {
			pause, again = again, min(2*again, askAgainEvery)
		} else {
			again = askAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// ask returns what is wrong with the cluster: first what the program needs, and
// once all of that was there, whether it answers.
func (r *remote) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if !r.admitted {
		err := review(ctx, r.asks.Client(), r.needs)
		if err == nil {
			err = r.kinds.Check(ctx)
		}
		r.admitted = err == nil
		return err
	}
	result := r.asks.Client().CoreV1().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx)
	answer, _ := result.Raw()
	var of version.Info
	switch err := result.Error(); {
	case absent.IsForeign(err):
		return err // of a proxy in its place
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err): //nolint:forbidigo // nothing is concluded about an object
		return nil // it is there
	case err == nil && (json.Unmarshal(answer, &of) != nil || of.GitVersion == ""):
		return errors.New("the answer to GET /version is not the API server's: a proxy or gateway has sent it")
	default:
		return err
	}
}

// note keeps what is wrong, and logs it when it changes.
func (r *remote) note(ctx context.Context, err error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("cluster", r.name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		if r.problem != nil {
			log.Info("cluster answers again, and has what the program needs")
		}
		r.problem = nil
		return
	}
	p := problemOf(r.asks.Config().Host, err)
	if r.problem != nil && r.problem.Cause == p.Cause {
		p.Since = r.problem.Since
	} else {
		log.Error(err, "cluster is of no use, asking again", "cause", p.Cause)
	}
	r.problem = &p
}

// problemOf says what err means, of a server that was asked.
func problemOf(host string, err error) inspect.Problem {
	p := inspect.Problem{Reason: err.Error(), Since: time.Now()}
	switch {
	case errors.Is(err, ErrPermission):
		p.Cause = "missing permission"
	case errors.Is(err, cluster.ErrKind):
		p.Cause = "missing kind"
	case apierrors.IsUnauthorized(err):
		p.Cause, p.Remedy = "Unauthorized", "replace the credentials in its kubeconfig"
	default:
		p.Cause, p.Reason = "no answer", fmt.Sprintf("the API server at %s does not answer: %v", host, err)
	}
	return p
}

// problems returns what is wrong with the cluster and its kubeconfig.
func (r *remote) problems() []inspect.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.file.problems("cluster/" + r.name)
	if r.problem != nil && !r.file.isUnread() {
		p := *r.problem
		p.Check = "cluster/" + r.name
		all = append(all, p)
	}
	return all
}

// isOptional reports whether the program can do without a cluster.
func (p Program) isOptional(name string) bool {
	return slices.ContainsFunc(p.Clusters, func(c Cluster) bool { return c.Name == name && c.Optional })
}

// clusterNames are those of Clusters.
func (p Program) clusterNames() []string {
	var names []string
	for _, c := range p.Clusters {
		names = append(names, c.Name)
	}
	return names
}

// watchClusters watches Program.Clusters until stop is called.
func (p Program) watchClusters(ctx context.Context, env Env, files map[string]*kubeconfig, f *flags) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	for _, c := range p.Clusters {
		r := &remote{
			name: c.Name, asks: env.asks.clusters[c.Name], kinds: env.Clusters[c.Name], file: files[c.Name],
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

// readers are controllers, which read from servers.
type readers []*reconcile.Controller

// dispensable returns the resources that only optional controllers watch, on
// the server of a cluster.
func (r readers) dispensable(server string) []schema.GroupResource {
	needed := map[schema.GroupResource]bool{}
	for _, i := range inspect.Informers(r...) {
		if i.Server == server {
			needed[i.Resource] = needed[i.Resource] || !i.Optional
		}
	}
	var all []schema.GroupResource
	for resource, is := range needed {
		if !is {
			all = append(all, resource)
		}
	}
	return all
}

// required returns a controller that is not optional and reads from the server,
// nil if there is none.
func (r readers) required(server string) *reconcile.Controller {
	for _, c := range r {
		if !c.Status(0).Optional && c.Informers()[0].Server == server {
			return c
		}
	}
	return nil
}

// serverOf returns the URL of a cluster's server, as informers have it.
func serverOf(c *cluster.Cluster) string {
	u, _, err := rest.DefaultServerUrlFor(c.Config())
	if err != nil { // cluster.New has checked it
		u = &url.URL{}
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/")
}
