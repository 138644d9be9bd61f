package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/redact"
)

// A kubeconfig with new credentials for the same server is a rotation, unless
// another cluster was built at the address of the server. The objects of the
// old cluster would then count as deleted. The UID of the namespace kube-system
// tells clusters apart, if the account may read it.

// identityTimeout bounds the request for the UID of a cluster, because another
// request waits for it.
const identityTimeout = 2 * time.Second

// errOtherCluster is the error of a kubeconfig that leads to a different
// cluster at the address of the one at the start.
var errOtherCluster = errors.New("the kubeconfig leads to a different cluster at the same address now")

// errUnknownCluster is the error of a kubeconfig with new credentials, if no
// answer has said to which cluster they lead.
var errUnknownCluster = errors.New("asking whether the new credentials are for the same cluster")

// errHidden is the error of a question for the UID that the server forbids. It
// is a decision only if it lasts; see rolesLoading.
var errHidden = errors.New("the credentials may not read the UID of the cluster")

// identity is what is known of the cluster of a kubeconfig.
type identity struct {
	uid types.UID // of its namespace kube-system, or empty if it is not known
	// isAsked says that a server has answered the question for the UID, or has
	// decided to forbid it. The question is not repeated.
	isAsked bool
	hidden  time.Time // when the server began to forbid the question; zero if it does not
}

// refusal is the last answer about credentials that are not used, because it is
// not known that they lead to the same cluster. The zero refusal is of none.
type refusal struct {
	login  *login
	err    error
	at     time.Time
	hidden time.Time // when the server began to forbid these credentials the question; zero if it does not
}

// change uses the credentials of config, unless they lead to a different
// cluster. It asks for the cluster of the same credentials once per
// readInterval, and over the same connections: a server that is upgraded may
// not answer for long. The reading lock must be held.
func (f *follower) change(req *http.Request, config *rest.Config) error {
	last := &f.refused
	if last.login == nil || !sameLogin(config, last.login.config) {
		*last = refusal{login: newLogin(config)}
	} else if time.Since(last.at) < readInterval {
		return last.err
	}
	err := f.checkCluster(req, last.login)
	last.hidden = beginning(last.hidden, errors.Is(err, errHidden))
	if err != nil && !isDecided(last.hidden) {
		if req.Context().Err() == nil { // otherwise the error is not about the server
			last.err, last.at = err, time.Now()
		}
		return err
	}
	f.use(req, last.login)
	*last = refusal{}
	return nil
}

// learn asks which cluster the current credentials lead to, unless that was
// answered before. req is a request of a client, whose headers have the
// credentials of the start. The reading lock must be held.
func (f *follower) learn(req *http.Request) {
	if f.cluster.isAsked || f.isUnread() {
		return
	}
	uid, err := f.clusterOf(req, f.send)
	hidden := beginning(f.cluster.hidden, errors.Is(err, errHidden))
	f.cluster = identity{uid, err == nil || isDecided(hidden), hidden}
}

// isDecided reports whether a server that began to forbid something at hidden,
// and still does, has decided that. A zero hidden means that it does not.
func isDecided(hidden time.Time) bool {
	return !hidden.IsZero() && time.Since(hidden) >= rolesLoading
}

// checkCluster returns an error if the credentials of l lead to a different
// cluster than the credentials before, or if no answer shows to which cluster
// they lead. The error satisfies errHidden if the server forbids them to read
// the UID. checkCluster returns nil if it is not known to which cluster the
// credentials before led. The reading lock must be held.
func (f *follower) checkCluster(req *http.Request, l *login) error {
	if f.cluster.uid == "" {
		return nil
	}
	uid, err := f.clusterOf(req, func(r *http.Request) (*http.Response, error) { return f.sendWith(l, r) })
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errUnknownCluster, redact.Addresses(err, f.first.Host))
	case uid != f.cluster.uid:
		return fmt.Errorf("%w: its namespace kube-system has the UID %s instead of %s", errOtherCluster, uid, f.cluster.uid)
	}
	return nil
}

// clusterOf returns the UID of the namespace kube-system, which it reads by
// send. It returns errHidden if the server forbids to read it. It returns
// another error if there is no answer, or one that does not say which cluster it
// is, such as the 503 of a server that starts or the page of a gateway. req has
// the URL of the server, and the headers of a client.
func (f *follower) clusterOf(req *http.Request, send func(*http.Request) (*http.Response, error)) (types.UID, error) {
	ctx, cancel := context.WithTimeout(req.Context(), identityTimeout)
	defer cancel()
	base, _, err := rest.DefaultServerUrlFor(f.first)
	if err != nil {
		return "", err
	}
	asked := (&http.Request{Method: http.MethodGet, Header: http.Header{}, URL: &url.URL{
		Scheme: req.URL.Scheme, Host: req.URL.Host,
		Path: strings.TrimSuffix(base.Path, "/") + "/api/v1/namespaces/" + metav1.NamespaceSystem,
	}}).WithContext(ctx)
	for name, values := range req.Header {
		if name == "Authorization" || name == "User-Agent" || strings.HasPrefix(name, "Impersonate-") {
			asked.Header[name] = slices.Clone(values)
		}
	}
	asked.Header.Set("Accept", "application/json")
	res, err := send(asked)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var answer metav1.PartialObjectMetadata
	err = json.NewDecoder(res.Body).Decode(&answer)
	switch {
	case err != nil:
	case res.StatusCode == http.StatusOK && answer.Kind == "Namespace" && answer.Name == metav1.NamespaceSystem:
		return answer.UID, nil
	case res.StatusCode == http.StatusForbidden && answer.Kind == "Status":
		return "", errHidden
	}
	return "", fmt.Errorf("reading namespace %q: the answer with status %d does not show it", metav1.NamespaceSystem,
		res.StatusCode)
}
