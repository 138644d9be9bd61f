package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Script is one case of the table. It is a list of requests, each of which is
// "[as NAME] METHOD PATH [TYPE] [? FIELD,FIELD]" with a body, or "rest PATH",
// which waits until the server is idle before it reads PATH.
//
// A file holds several scripts, each under "== title". A file may begin with a
// block of kinds, one per line in the form "name path fragment change". Its
// scripts are then repeated for each kind.
type Script struct {
	File, Title string
	number      int
	repeats     int
	blocks      []string
}

// Scripts returns the scripts of the files that match a pattern.
func Scripts(t *testing.T, pattern string) []Script {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("finding tables: %v, %v", files, err)
	}
	var scripts []Script
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatalf("reading a table: %v", err)
		}
		scripts = append(scripts, parseTable(f, string(text))...)
	}
	return scripts
}

func parseTable(file, text string) []Script {
	parts := strings.Split("\n"+text, "\n== ")
	kinds := []string{""}
	if head := uncomment(strings.TrimSpace(parts[0])); head != "" {
		kinds = strings.Split(head, "\n")
	}
	var scripts []Script
	for _, kind := range kinds {
		for _, part := range parts[1:] {
			if f := strings.SplitN(kind, " ", 4); len(f) == 4 {
				part = strings.NewReplacer("$kind", f[0], "$path", f[1], "$body", f[2], "$change", f[3]).Replace(part)
			}
			title, steps, _ := strings.Cut(part, "\n")
			s := Script{File: file, Title: title, number: len(scripts)}
			for block := range strings.SplitSeq(strings.TrimSpace(steps), "\n\n") {
				if block = uncomment(block); block != "" {
					s.blocks = append(s.blocks, block)
				}
			}
			scripts = append(scripts, s)
		}
	}
	return scripts
}

// namespace returns the script's own namespace.
func (s *Script) namespace() string {
	return fmt.Sprintf("%s-%d", strings.TrimSuffix(filepath.Base(s.File), ".txt"), s.number)
}

// InNewNamespace returns the script with a new namespace and other node ports,
// for a server on which the script has been played n times, at most nine. A
// busy server may keep a node port for minutes: if it repeats an update because
// its cache was late, it allocates the port twice and refuses its own update.
func (s *Script) InNewNamespace(n int) *Script {
	repeated := *s
	repeated.number += 10_000 * n
	repeated.repeats = n
	return &repeated
}

var nodePort = regexp.MustCompile(`(odePort": ?30)([0-9])([0-9]{2})\b`)

// withPorts returns the JSON text with "to" instead of "from" as the hundreds
// of its node ports. For example, 30083 becomes 30183.
func withPorts(text string, from, to int) string {
	return nodePort.ReplaceAllStringFunc(text, func(port string) string {
		parts := nodePort.FindStringSubmatch(port)
		if parts[2] != strconv.Itoa(from) {
			return port
		}
		return parts[1] + strconv.Itoa(to) + parts[3]
	})
}

// World is a server on which scripts are played.
type World struct {
	Config *rest.Config
	// Settle waits until the server is idle. path is the path of the request
	// that follows, as the script has it: variables such as $ns are not yet
	// replaced.
	Settle func(path string)
}

// Run plays a script and returns a line for each request, with the relevant
// parts of the answer.
func (s *Script) Run(t *testing.T, w World) []string {
	t.Helper()
	client, err := rest.HTTPClientFor(w.Config)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	p := &player{t: t, base: w.Config.Host, http: client, answers: map[string]map[string]any{}, ns: s.namespace()}
	p.mask = NewMask(p.ns)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p.send(ctx, http.MethodPost, "/api/v1/namespaces", "", `{"metadata":{"name":"`+p.ns+`"}}`)
	var lines []string
	for _, block := range s.blocks {
		head, body, _ := strings.Cut(block, "\n")
		request, fields, _ := strings.Cut(head, " ? ")
		f := strings.Fields(request)
		keep := ""
		if f[0] == "as" {
			keep, f = f[1], f[2:]
		}
		if f[0] == "rest" {
			w.Settle(f[1])
			f[0] = http.MethodGet
		}
		media := ""
		if len(f) > 2 {
			media = f[2]
		}
		resp, raw := p.send(ctx, f[0], f[1], media, withPorts(body, 0, s.repeats))
		raw = []byte(withPorts(string(raw), s.repeats, 0))
		var answer map[string]any
		_ = json.Unmarshal(raw, &answer)
		if keep != "" {
			p.answers[keep] = answer
		}
		if body != "" && !strings.Contains(body, "$") && len(body) < 120 {
			request += " " + strings.ReplaceAll(body, "\n", " ")
		}
		lines = append(lines, request+" → "+p.mask.brief(resp, raw, fields))
	}
	return lines
}

// brief summarizes an answer in one line, which begins with the status code. A
// refusal adds its reason and its causes, an object its metadata, and a list
// its kind and the names of its items. The fields that the script names follow.
func (m *Mask) brief(resp *http.Response, raw []byte, fields string) string {
	var v map[string]any
	words := []string{fmt.Sprint(resp.StatusCode)}
	if err := json.Unmarshal(raw, &v); err != nil {
		return words[0] + " " + resp.Header.Get("Content-Type")
	}
	meta, _ := v["metadata"].(map[string]any)
	switch items, isList := v["items"].([]any); {
	case v["kind"] == "Status":
		words = append(words, m.refusal(v)...)
	case isList:
		var names []string
		for _, item := range items {
			im, _ := item.(map[string]any)["metadata"].(map[string]any)
			names = append(names, m.words(fmt.Sprint(im["name"])))
		}
		words = append(words, fmt.Sprintf("%v %v", v["kind"], names))
		for _, f := range []string{"continue", "remainingItemCount"} {
			if x := meta[f]; x != nil && x != "" {
				words = append(words, f)
			}
		}
	default:
		words = append(words, m.metadata(meta)...)
	}
	for f := range strings.SplitSeq(fields, ",") {
		if f = strings.TrimSpace(f); f != "" {
			words = append(words, f+"="+m.words(fmt.Sprint(encode(dig(v, f)))))
		}
	}
	if strings.Contains(resp.Request.URL.RawQuery, "fieldValidation") {
		for _, warning := range resp.Header.Values("Warning") {
			words = append(words, "warning:"+strings.TrimPrefix(warning, "299 - "))
		}
	}
	return strings.Join(words, " ")
}

// owners matches a cause that is about an owner reference, in the form of
// servers since v1.37. These name the index of the reference, and so does the
// simulated server. Older servers do not. refusal writes both forms in the same
// way.
var owners = regexp.MustCompile(`ownerReferences\[\d+\]\.(\w+):FieldValueRequired`)

func (m *Mask) refusal(v map[string]any) []string {
	words := []string{fmt.Sprint(v["status"])}
	if v["status"] == "Success" {
		return words
	}
	words = []string{fmt.Sprint(v["reason"])}
	details, _ := v["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	var lines []string
	for _, c := range causes {
		cause, _ := c.(map[string]any)
		text := fmt.Sprintf("%v:%v", cause["field"], cause["reason"])
		text = owners.ReplaceAllString(text, "ownerReferences.$1:FieldValueInvalid")
		lines = append(lines, strings.Replace(text, "ownerReferences[0]:", "ownerReferences:", 1))
	}
	slices.Sort(lines)
	words = append(words, slices.Compact(lines)...)
	if seconds, ok := details["retryAfterSeconds"]; ok {
		words = append(words, fmt.Sprint("retryAfter=", seconds))
	}
	return words
}

// metadata returns the fields that all servers set, and the fields that show
// whether a write changed the object.
func (m *Mask) metadata(meta map[string]any) []string {
	var words []string
	add := func(name, field string) {
		if v, ok := meta[field]; ok {
			words = append(words, name+"="+m.words(encode(m.value(v, field))))
		}
	}
	add("uid", "uid")
	words = append(words, "rv="+m.moved(meta))
	add("gen", "generation")
	add("labels", "labels")
	add("finalizers", "finalizers")
	add("grace", "deletionGracePeriodSeconds")
	if meta["deletionTimestamp"] != nil {
		words = append(words, "deleting")
	}
	return words
}

// moved returns "new" if no earlier answer had the resourceVersion of the
// object, "known" if an earlier answer had it, and "none" if the object has no
// resourceVersion.
func (m *Mask) moved(meta map[string]any) string {
	rv, _ := meta["resourceVersion"].(string)
	if rv == "" {
		return "none"
	}
	key := fmt.Sprint("rv of ", meta["uid"], " ", rv)
	if _, known := m.masked[key]; known {
		return "known"
	}
	m.masked[key] = "known"
	return "new"
}

func (m *Mask) words(s string) string {
	s = strings.ReplaceAll(fmt.Sprint(m.text(s, "")), `"`, "")
	s = allocated.ReplaceAllString(s, "$1*")
	return generated.ReplaceAllString(s, "$$ns-*")
}

// allocated matches the addresses and ports that a server chooses.
var allocated = regexp.MustCompile(`(clusterIPs?:\[?10\.0\.|odePort:)[0-9.]+`)

var generated = regexp.MustCompile(`\$ns-[a-z0-9]{5}\b`)

func encode(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

// dig returns the value at a path such as
// "spec.template.spec.containers.0.image".
func dig(v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch t := v.(type) {
		case map[string]any:
			v = t[strings.ReplaceAll(step, "~", ".")]
		case []any:
			i := 0
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(t) {
				return nil
			}
			v = t[i]
		default:
			return nil
		}
	}
	return v
}

// recorded returns the recorded answers of the real server. The keys are the
// titles of scripts.
func recorded(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(Golden(file))
	if err != nil {
		t.Fatalf("reading the recorded answers: %v", err)
	}
	answers := map[string][]string{}
	for _, part := range strings.Split("\n"+strings.TrimSpace(string(text)), "\n== ")[1:] {
		lines := strings.Split(strings.TrimSpace(part), "\n")
		answers[lines[0]] = lines[1:]
	}
	return answers
}

// Difference is a request to which the simulated and the real server answer
// differently.
type Difference struct{ Script, Request, Real, Simulated string }

// Differences plays each script against a simulated server and compares the
// answers with the recorded ones. It returns the differences and the number of
// requests.
func Differences(t *testing.T, scripts []Script, simulate func(*Script) []string) ([]Difference, int) {
	t.Helper()
	var differences []Difference
	count := 0
	for _, s := range scripts {
		want, got := recorded(t, s.File)[s.Title], simulate(&s)
		if len(want) != len(got) {
			t.Fatalf("%s, %q: %d answers are recorded, of %d requests: run the e2e test with -update",
				s.File, s.Title, len(want), len(got))
		}
		for i := range got {
			count++
			request, real, _ := strings.Cut(want[i], " → ")
			if _, simulated, _ := strings.Cut(got[i], " → "); real != simulated {
				differences = append(differences, Difference{s.Title, request, real, simulated})
			}
		}
	}
	return differences, count
}

// rows returns the rows of a table in Markdown.
func rows(differences []Difference) string {
	var b strings.Builder
	for _, d := range differences {
		real, simulated := distinct(d.Real, d.Simulated)
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", d.Script, cell(d.Request), cell(real), cell(simulated))
	}
	return b.String()
}

// HoldPage fails the test if the text between two marks on a page is not the
// table of these differences. If write is set, it writes the table to the page
// instead. count is the number of requests.
func HoldPage(t *testing.T, page, mark string, differences []Difference, count int, write bool) {
	t.Helper()
	begin, end := "<!-- begin of the generated "+mark+" -->", "<!-- end of the generated "+mark+" -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatalf("reading the page: %v", err)
	}
	head, rest, _ := strings.Cut(string(text), begin)
	_, tail, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s lacks the marks %q and %q, between which the table is written", page, begin, end)
	}
	want := fmt.Sprintf("%s%s\nOf %d requests, %d are answered alike: in code, reason, causes, and what the script asks "+
		"of the object. These are not:\n\n| script | request | kube-apiserver | simulated |\n|---|---|---|---|\n%s%s%s",
		head, begin, count, count-len(differences), rows(differences), end, tail)
	if write {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatalf("writing the page: %v", err)
		}
	} else if want != string(text) {
		t.Errorf("the simulated server does not match %s: correct the server, or run this test with -write; it differs "+
			"in\n%s", page, rows(differences))
	}
}

// distinct returns both answers, each without the words that the other answer
// has as well. The status codes stay.
func distinct(a, b string) (string, string) {
	aFields, bFields := strings.Fields(a), strings.Fields(b)
	unshared := func(words, otherWords []string) string {
		kept := words[:1]
		for _, w := range words[1:] {
			if !slices.Contains(otherWords, w) {
				kept = append(slices.Clip(kept), w)
			}
		}
		return strings.Join(kept, " ")
	}
	return unshared(aFields, bFields), unshared(bFields, aFields)
}

func cell(s string) string {
	s = strings.NewReplacer("|", "\\|", "/api/v1/namespaces/$ns/", "", "FieldValue", "", "<nil>", "(no reason)").Replace(s)
	if i := strings.Index(s, "/namespaces/$ns/"); i >= 0 {
		verb, _, _ := strings.Cut(s, "/apis")
		s = verb + s[i+len("/namespaces/$ns/"):]
	}
	return s
}
