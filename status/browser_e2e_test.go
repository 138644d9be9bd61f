//go:build e2e

package status_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/reconcile/inspect"
	"github.com/homeostat/homeostat/status"
)

// browser returns the path of a Chromium. It is installed on the machine, not
// by this test.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"google-chrome", "chromium", "chromium-browser"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const none = "looking for a browser: there is none: install Debian's package chromium"
	if os.Getenv("CI") == "" {
		t.Skip(none)
	}
	t.Fatal(none)
	return ""
}

// browse runs the browser once, without features that send requests to other
// servers.
func browse(t *testing.T, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), browser(t), append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-dev-shm-usage", "--virtual-time-budget=1000", "--user-data-dir=" + t.TempDir(),
	}, arguments...)...)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("running the browser: %v", err)
	}
	return string(out)
}

// measure is a script for the page, which has no script of its own. It writes
// the faults of the layout into the page.
const measure = `<script>
const levels = c => c.match(/[0-9.]+/g).slice(0, 3).map(Number);
const luminance = c => levels(c).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + .05) / (Math.min(luminance(a), luminance(b)) + .05);
const backgroundOf = e => { const c = getComputedStyle(e).backgroundColor;
  return c != "rgba(0, 0, 0, 0)" ? c : e.parentElement ? backgroundOf(e.parentElement) : "rgb(255, 255, 255)"; };
addEventListener("load", () => {
  const faults = [], root = document.documentElement;
  if (root.scrollWidth > innerWidth) faults.push("wider than the window: " + root.scrollWidth + " > " + innerWidth);
  const shown = [...document.querySelectorAll("svg")].filter(s => getComputedStyle(s).display != "none");
  if (shown.length > 1 || shown.length == 0 && document.querySelector("#graph")) faults.push(shown.length + " graphs are shown");
  for (const svg of shown) for (const g of svg.querySelectorAll("g")) {
    const box = g.querySelector("rect").getBoundingClientRect();
    for (const text of g.querySelectorAll("text")) {
      const t = text.getBoundingClientRect();
      if (t.right > box.right + 1 || t.bottom > box.bottom + 1) faults.push("text leaves its box: " + text.textContent);
      if (t.height < 11) faults.push("text is too small: " + text.textContent);
    }
  }
  if (getComputedStyle(document.querySelector("section")).borderRadius == "0px") faults.push("there is no style");
  for (const e of document.querySelectorAll("td, th, dd, h3, p, .badge")) {
    const soft = getComputedStyle(e), box = e.getBoundingClientRect();
    if (box.width && box.right > innerWidth + 1) faults.push("cut off: " + e.textContent.slice(0, 40));
    if (contrast(soft.color, backgroundOf(e)) < 4.5) faults.push("too pale: " + e.textContent.slice(0, 40));
  }
  document.title = "faults: " + (faults.join("; ") || "none");
});
</script>`

// measured serves the page, on request with the measuring script. It changes
// the page's policy to allow that script.
func measured(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, r)
		body, policy := recorder.Body.String(), recorder.Header().Get("Content-Security-Policy")
		if r.URL.Query().Has("measure") {
			body = strings.Replace(body, "</head>", measure+"</head>", 1)
			policy += "; script-src 'unsafe-inline'"
		}
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(body))
	})
}

func TestE2EThePageIsWellDrawnAtTwoWidths(t *testing.T) {
	g := NewWithT(t)
	s := newFixture(t)
	handler, err := status.New(&status.Options{Controllers: s.controllers})
	g.Expect(err).NotTo(HaveOccurred())
	defer s.run(t.Context())()
	g.Eventually(func() int { return len(s.controllers[0].Status(100).Keys) }, 10*time.Second).Should(Equal(6))
	g.Eventually(func() []inspect.InformerStatus { return inspect.Informers(s.controllers...) }, 10*time.Second).
		Should(ContainElement(HaveField("Objects", 8)))
	server := httptest.NewServer(measured(handler))
	defer server.Close()

	const overview, key = "/debug/homeostat?refresh=0", "/debug/homeostat?refresh=0&controller=rollout&key=d/unseen"
	for name, look := range map[string]struct{ path, size, scheme string }{
		"wide-light": {overview, "1280,1700", light}, "wide-dark": {overview, "1280,1700", dark},
		"narrow-light": {overview, "320,3900", light}, "narrow-dark": {overview, "320,3900", dark},
		"key-wide-light": {key, "1280,700", light}, "key-narrow-dark": {key, "320,900", dark},
	} {
		file := filepath.Join(t.ArtifactDir(), "page-"+name+".png")
		browse(t, look.scheme, "--window-size="+look.size, "--screenshot="+file, server.URL+look.path)
		picture, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(len(picture)).To(BeNumerically(">", 5_000), "it is not blank")

		page := browse(t, look.scheme, "--window-size="+look.size, "--dump-dom", server.URL+look.path+"&measure")
		_, title, _ := strings.Cut(page, "<title>")
		title, _, _ = strings.Cut(title, "</title>")
		g.Expect(title).To(Equal("faults: none"), name)
	}
}

// The names of the color schemes in the browser's options.
const (
	dark  = "--blink-settings=preferredColorScheme=0"
	light = "--blink-settings=preferredColorScheme=1"
)
