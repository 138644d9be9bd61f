package status

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the template and its style
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strconv"

	"github.com/go-logr/logr"

	"github.com/homeostat/homeostat/reconcile"
)

//go:embed page.html
var pageTemplate string

//go:embed page.css
var pageStyle string

// A page serves the report as HTML and as JSON.
type page struct {
	controllers []*reconcile.Controller
	template    *template.Template
}

// A view is the report with how it is to be shown.
type view struct {
	*report
	Style   template.CSS
	Graphs  []graph
	Refresh int // seconds
	Keys    int
}

func newPage(controllers []*reconcile.Controller) (page, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"ago": ago, "since": since, "span": span, "scope": scope, "size": size, "counted": counted,
		"state": state, "slot": slot, "cause": cause, "few": few, "beyond": beyond,
	}).Parse(pageTemplate)
	if err != nil {
		return page{}, fmt.Errorf("parsing the page: %w", err)
	}
	return page{controllers, t}, nil
}

func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	keys := number(query.Get("keys"), DefaultKeys, MaxKeys)
	var body bytes.Buffer
	var err error
	contentType := "application/json"
	if query.Get("format") == "json" {
		encoder := json.NewEncoder(&body)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(reportOf(p.controllers, keys))
	} else {
		contentType = "text/html; charset=utf-8"
		refresh := number(query.Get("refresh"), int(DefaultRefresh.Seconds()), 3600)
		err = p.render(&body, keys, refresh)
	}
	if err != nil {
		logr.FromContextOrDiscard(r.Context()).Error(err, "page could not be shown")
		http.Error(w, "the page could not be shown", http.StatusInternalServerError)
		return
	}
	header(w, contentType)
	digest := sha256.Sum256([]byte(pageStyle))
	w.Header().Set("Content-Security-Policy", fmt.Sprintf(
		"default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		base64.StdEncoding.EncodeToString(digest[:])))
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = body.WriteTo(w) // the client may have gone
}

func (p page) render(body *bytes.Buffer, keys, refresh int) error {
	data := reportOf(p.controllers, keys)
	v := view{report: data, Style: template.CSS(pageStyle), Graphs: graphsOf(data), Refresh: refresh, Keys: keys}
	if err := p.template.Execute(body, v); err != nil {
		return fmt.Errorf("rendering the page: %w", err)
	}
	return nil
}

// number reads a query parameter between 0 and most.
func number(text string, otherwise, most int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return otherwise
	}
	return min(n, most)
}
