package status

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the style
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/reconcile"
)

//go:embed page.css
var pageStyle literal

// A page serves the report as HTML and as JSON.
type page struct {
	controllers []*reconcile.Controller
	policy      string
}

func newPage(controllers []*reconcile.Controller) page {
	digest := sha256.Sum256([]byte(pageStyle))
	return page{controllers, "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) +
		"'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"}
}

func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asJSON, refresh := query.Get("format") == "json", number(query.Get("refresh"), int(defaultRefresh.Seconds()), 3600)
	if query.Has("key") {
		view, ok := keyViewOf(p.controllers, query)
		switch {
		case !ok:
			http.Error(w, "there is no such controller", http.StatusNotFound)
		case asJSON:
			p.serveJSON(w, r, view)
		default:
			k := keyPage{keyView: view, refresh: refresh}
			k.render()
			p.serve(w, "text/html; charset=utf-8", &k.out)
		}
		return
	}
	keys := number(query.Get("keys"), defaultKeys, maxKeys)
	shown := reportOf(p.controllers, keys)
	if asJSON {
		p.serveJSON(w, r, shown)
		return
	}
	o := overview{report: shown, keys: keys, refresh: refresh}
	o.render()
	p.serve(w, "text/html; charset=utf-8", &o.out)
}

func (p page) serveJSON(w http.ResponseWriter, r *http.Request, value any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		klog.FromContext(r.Context()).Error(err, "page could not be shown")
		http.Error(w, "the page could not be shown", http.StatusInternalServerError)
		return
	}
	p.serve(w, "application/json", &body)
}

func (p page) serve(w http.ResponseWriter, contentType string, body *bytes.Buffer) {
	header(w, contentType)
	w.Header().Set("Content-Security-Policy", p.policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = body.WriteTo(w) // the client may have gone
}

// number reads a query parameter between 0 and most.
func number(text string, otherwise, most int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return otherwise
	}
	return min(n, most)
}
