package apisim

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// listed is the answer to a list.
type listed struct {
	items     []*stored
	version   int64
	token     string
	remaining int64
	selector  string // the shard selector, if the server has applied one
}

// cursor is the content of a continue token: the version of the list, and the
// key of the last object on the page.
type cursor struct {
	Version   int64  `json:"rv"`
	Namespace string `json:"ns,omitempty"`
	Name      string `json:"name"`
}

func (x *exchange) list() (*output, error) {
	if err := checkList(x.r); err != nil {
		return nil, err
	}
	match, err := newSelector(x.s, &x.t.res, x.r)
	if err != nil {
		return nil, err
	}
	start, err := x.listFrom()
	if err != nil {
		return nil, err
	}
	l := listed{version: start.Version, selector: match.selector}
	limit, _ := strconv.Atoi(x.r.query.Get("limit"))
	if x.r.query.Get("resourceVersion") == "0" {
		limit = 0 // the real server answers from its cache, without pages
	}
	startKey := types.NamespacedName{Namespace: start.Namespace, Name: start.Name}
	for _, o := range x.t.objectsAt(start.Version) {
		if start.Name != "" && compareKeys(o.key, startKey) <= 0 || !match.matches(o) {
			continue
		}
		if limit > 0 && len(l.items) == limit {
			l.remaining++
			continue
		}
		l.items = append(l.items, o)
	}
	if l.remaining > 0 {
		key := l.items[len(l.items)-1].key
		token, _ := json.Marshal(cursor{Version: start.Version, Namespace: key.Namespace, Name: key.Name})
		l.token = base64.RawURLEncoding.EncodeToString(token)
	}
	if len(match.fields) > 0 || match.selector != "" || !match.labels.Empty() {
		l.remaining = 0 // the real server does not count objects that it must filter
	}
	return l.output(x.t, x.r)
}

// listFrom returns the resourceVersion that a list shows, and the key after
// which it starts.
func (x *exchange) listFrom() (cursor, error) {
	if token := x.r.query.Get("continue"); token != "" {
		if rv := x.r.query.Get("resourceVersion"); rv != "" && rv != "0" {
			return cursor{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		var c cursor
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || json.Unmarshal(raw, &c) != nil {
			return c, apierrors.NewBadRequest("invalid continue token: continue key is not valid")
		}
		if c.Version < x.t.compacted {
			return c, apierrors.NewResourceExpired("The provided continue parameter is too old to display " +
				"a consistent list result. " +
				"You must start a new list without the continue parameter.")
		}
		return c, nil
	}
	rv := x.r.query.Get("resourceVersion")
	switch rv {
	case "":
		return cursor{Version: x.s.version}, nil
	case "0":
		return cursor{Version: x.s.cached(x.t, x.r.Client)}, nil
	}
	wanted, err := strconv.ParseInt(rv, 10, 64)
	if err != nil || wanted < 0 {
		return cursor{}, invalidVersion(rv)
	}
	exact := x.r.query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact)
	current := x.s.version
	if !exact {
		current = x.s.cached(x.t, x.r.Client)
	}
	if wanted > current {
		return cursor{}, tooLarge(wanted, current)
	}
	if !exact {
		return cursor{Version: current}, nil
	}
	if wanted < x.t.compacted {
		return cursor{}, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return cursor{Version: wanted}, nil
}

func invalidVersion(rv string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: resourceVersion: Invalid value: %q: "+
		"strconv.ParseUint: parsing %q: invalid syntax", rv, rv))
}

// tooLarge returns the error for a resourceVersion that is newer than the
// server's. It asks the client to retry, because another server may have sent
// this version.
func tooLarge(wanted, current int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", wanted, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

func (r *request) item(t *table, o *stored) ([]byte, error) {
	switch {
	case r.metadataOnly():
		return partial(o)
	case t.res.builtin.typed:
		return o.listItem()
	}
	return o.raw, nil
}

// listMeta is the metadata of lists. It has a field that older versions of
// apimachinery lack, since the test kit also runs with them.
type listMeta struct {
	metav1.ListMeta

	ShardInfo *shardInfo `json:"shardInfo,omitempty"`
}

type shardInfo struct {
	Selector string `json:"selector"`
}

func (l *listed) output(t *table, r *request) (*output, error) {
	kind, version := t.res.Kind+"List", t.res.apiVersion()
	if r.metadataOnly() {
		kind, version = "PartialObjectMetadataList", metav1.SchemeGroupVersion.String()
	}
	meta := listMeta{ListMeta: metav1.ListMeta{ResourceVersion: formatVersion(l.version), Continue: l.token}}
	if l.selector != "" {
		meta.ShardInfo = &shardInfo{Selector: l.selector}
	}
	if l.remaining > 0 {
		meta.RemainingItemCount = &l.remaining
	}
	head, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, kind, version, head)
	for i, o := range l.items {
		if i > 0 {
			b.WriteByte(',')
		}
		body, err := r.item(t, o)
		if err != nil {
			return nil, err
		}
		b.Write(body)
	}
	b.WriteString("]}")
	return &output{code: http.StatusOK, body: b.Bytes()}, nil
}
