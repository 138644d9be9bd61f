package conformance

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Golden returns the path of the file that has a real server's answers to the
// requests in file.
func Golden(file string) string { return strings.TrimSuffix(file, ".txt") + ".golden" }

// player plays one scenario, which is a list of blocks. A block is one of
// these:
//
//   - a request line, "[as NAME] METHOD PATH [TYPE]", with a body
//   - "watch NAME PATH"
//   - "events NAME COUNT"
//   - "end NAME", which reads until the server ends the watch
//
// $ns is the namespace of the scenario. ${NAME.uid}, ${NAME.rv} and
// ${NAME.continue} are values of the answer that was kept under the name.
type player struct {
	t       *testing.T
	base    string
	http    *http.Client
	ns      string
	answers map[string]map[string]any
	watches map[string]chan string
	mask    *Mask
	output  bytes.Buffer
}

// Play plays the scenario of a file against a server, and returns all answers.
func Play(t *testing.T, config *rest.Config, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("reading the scenario: %v", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	p := &player{
		t: t, base: config.Host, http: client, answers: map[string]map[string]any{}, watches: map[string]chan string{},
		ns: "conf-" + strings.TrimSuffix(filepath.Base(file), ".txt"),
	}
	p.mask = NewMask(p.ns)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p.request(ctx, http.MethodPost, "/api/v1/namespaces", "", `{"metadata":{"name":"`+p.ns+`"}}`)
	p.output.Reset()
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		if line := uncomment(block); line != "" {
			p.step(ctx, line)
		}
	}
	return p.output.String()
}

func uncomment(block string) string {
	var lines []string
	for line := range strings.SplitSeq(block, "\n") {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

var mediaTypes = map[string]string{
	"": "application/json", "json": "application/json-patch+json", "merge": "application/merge-patch+json",
	"strategic": "application/strategic-merge-patch+json", "apply": "application/apply-patch+yaml",
}

func (p *player) step(ctx context.Context, block string) {
	head, body, _ := strings.Cut(block, "\n")
	fmt.Fprintf(&p.output, "> %s\n", head)
	f := strings.Fields(head)
	keep := ""
	if f[0] == "as" {
		keep, f = f[1], f[2:]
	}
	switch f[0] {
	case "watch":
		p.watch(ctx, f[1], f[2])
		p.output.WriteString("\n")
		return
	case "events":
		p.events(ctx, f[1], f[2])
		return
	case "end":
		p.end(ctx, f[1])
		return
	}
	media := ""
	if len(f) > 2 {
		media = f[2]
	}
	answer := p.request(ctx, f[0], f[1], media, body)
	if keep != "" {
		p.answers[keep] = answer
	}
}

func (p *player) fill(text string) string {
	text = strings.ReplaceAll(text, "$ns", p.ns)
	for name, obj := range p.answers {
		m, _ := obj["metadata"].(map[string]any)
		for key, field := range map[string]string{
			"uid": "uid", "rv": "resourceVersion", "continue": "continue",
			"name": "name",
		} {
			v, _ := m[field].(string)
			text = strings.ReplaceAll(text, "${"+name+"."+key+"}", v)
		}
	}
	return text
}

func (p *player) request(ctx context.Context, method, path, media, body string) map[string]any {
	p.t.Helper()
	resp, raw := p.send(ctx, method, path, media, body)
	var answer map[string]any
	_ = json.Unmarshal(raw, &answer)
	fmt.Fprintf(&p.output, "%d\n%s\n\n", resp.StatusCode, p.mask.Show(raw))
	return answer
}

func (p *player) send(ctx context.Context, method, path, media, body string) (*http.Response, []byte) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, p.base+p.fill(path), strings.NewReader(p.fill(body)))
	if err != nil {
		p.t.Fatalf("making a request: %v", err)
	}
	req.Header.Set("Content-Type", cmp.Or(mediaTypes[media], media))
	req.Header.Set("User-Agent", "conformance")
	req.Header.Set("Accept", "application/json")
	if media == "meta" {
		req.Header.Set("Content-Type", mediaTypes[""])
		req.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"+
			"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
		if method == http.MethodGet && strings.HasSuffix(path, "s") {
			req.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
		}
	}
	resp, err := p.http.Do(req)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp, raw
}

func (p *player) watch(ctx context.Context, name, path string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+p.fill(path), nil)
	if err != nil {
		p.t.Fatalf("making a watch: %v", err)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		p.t.Fatalf("watching %s: %v", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("watching %s: %s", path, resp.Status)
	}
	lines := make(chan string, 1000)
	p.watches[name] = lines
	go func() {
		defer resp.Body.Close()
		defer close(lines)
		for r := bufio.NewReader(resp.Body); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
}

func (p *player) events(ctx context.Context, name, count string) {
	n := 0
	if _, err := fmt.Sscan(count, &n); err != nil {
		p.t.Fatalf("events %s: %v", count, err)
	}
	for i := range n {
		select {
		case line, ok := <-p.watches[name]:
			if !ok {
				p.t.Errorf("watch %s ended after %d of %d events", name, i, n)
				return
			}
			p.output.WriteString(p.mask.Show([]byte(line)) + "\n")
		case <-ctx.Done():
			p.t.Errorf("watch %s: %d of %d events had arrived when the test ended", name, i, n)
			return
		case <-time.After(10 * time.Second):
			p.t.Errorf("watch %s: only %d of %d events arrived", name, i, n)
			return
		}
	}
	p.output.WriteString("\n")
}

// end writes the remaining events of a watch until the server ends it. If an
// event is equal to the one before it, end leaves it out, because the real
// server sends the last bookmark once or twice.
func (p *player) end(ctx context.Context, name string) {
	for previous := ""; ; {
		select {
		case line, ok := <-p.watches[name]:
			if !ok {
				p.output.WriteString("the end\n\n")
				return
			}
			if shown := p.mask.Show([]byte(line)); shown != previous {
				p.output.WriteString(shown + "\n")
				previous = shown
			}
		case <-ctx.Done():
			p.t.Errorf("watch %s did not end in time", name)
			return
		}
	}
}
