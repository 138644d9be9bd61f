//go:build e2e

package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

// look is a page that shows every other one in a frame, wide and narrow, and
// lists the errors of each.
const look = `<!DOCTYPE html><meta charset="utf-8"><title>looking</title><script>
const pages = %s;
const levels = c => c.match(/[0-9.]+/g).map(Number);
const luminance = c => levels(c).slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + .05) / (Math.min(luminance(a), luminance(b)) + .05);
const wide = {}; // pictures, by their width at the first look
const judge = (page, view) => {
  const doc = view.document, faults = [];
  const style = e => view.getComputedStyle(e);
  const ground = e => e == null ? "rgb(255, 255, 255)" : levels(style(e).backgroundColor)[3] === 0 ? ground(e.parentElement) : style(e).backgroundColor;
  const scrolls = e => e != null && (style(e).overflowX == "auto" || scrolls(e.parentElement));
  const say = (fault, e) => faults.push(page + " at " + view.innerWidth + ": " + fault + ": " + e.textContent.trim().slice(0, 40));
  if (doc.documentElement.scrollWidth > view.innerWidth) say("wider than the window by " + (doc.documentElement.scrollWidth - view.innerWidth), doc.querySelector("title"));
  for (const e of doc.querySelectorAll("main *, nav a, footer a")) {
    const box = e.getBoundingClientRect();
    if (e.tagName == "IMG" && !(e.complete && e.naturalWidth > 0)) faults.push(page + ": no picture " + e.getAttribute("src"));
    if (box.width > 0 && box.right > view.innerWidth + 1 && !scrolls(e)) say("cut off", e);
    if (e.tagName == "IMG") {
      const picture = page + " " + e.getAttribute("src");
      if (box.width < .8 * (wide[picture] ??= box.width)) faults.push(picture + " at " + view.innerWidth + ": too small to read");
    }
    const writes = [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim());
    if (writes && contrast(style(e).color, ground(e)) < 4.5) say("too pale", e);
    if (writes && parseFloat(style(e).fontSize) < 11) say("too small", e);
  }
  return faults;
};
addEventListener("load", async () => {
  let faults = [], looks = 0;
  for (const page of pages) for (const width of [1280, 320]) {
    const frame = document.createElement("iframe");
    frame.style = "border: 0; height: 900px; width: " + width + "px";
    const loaded = new Promise(done => frame.onload = done);
    frame.src = page;
    document.body.append(frame);
    await loaded;
    faults = faults.concat(judge(page, frame.contentWindow));
    looks++;
    frame.remove();
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.body.textContent = "[" + dark + ", looks: " + looks + "] " + (faults.slice(0, 40).join("\n") || "none");
});
</script><body></body>`

// Every page, at the widths of a phone and of a desk, light and dark: nothing
// is cut off, too pale, too small or missing.
func TestE2EThePagesAreWellDrawn(t *testing.T) {
	out := t.TempDir()
	if err := build("../../..", out); err != nil {
		t.Fatal(err)
	}
	var pages []string
	err := fs.WalkDir(os.DirFS(out), ".", func(p string, _ fs.DirEntry, err error) error {
		if path.Ext(p) == ".html" {
			pages = append(pages, p)
		}
		return err
	})
	if err != nil || len(pages) < 30 {
		t.Fatalf("found %d pages: %v", len(pages), err)
	}
	list, err := json.Marshal(pages)
	if err != nil {
		t.Fatal(err)
	}
	files := http.FileServer(http.Dir(out))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/look" {
			_, _ = fmt.Fprintf(w, look, list)
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	for scheme, setting := range map[string]string{"dark": "0", "light": "1"} {
		said := browse(t, "--blink-settings=preferredColorScheme="+setting, server.URL+"/look")
		_, said, _ = strings.Cut(said, "<body>")
		said, _, _ = strings.Cut(said, "</body>")
		if want := fmt.Sprintf("[%s, looks: %d] none", scheme, 2*len(pages)); html.UnescapeString(said) != want {
			t.Errorf("the browser says %s\nwant %s", html.UnescapeString(said), want)
		}
	}
}

// browse returns the content of a page after its scripts have run. Without a
// browser the test is skipped, but not in CI.
func browse(t *testing.T, arguments ...string) string {
	t.Helper()
	var browser string
	for _, name := range []string{"google-chrome", "chromium", "chromium-browser"} {
		if found, err := exec.LookPath(name); err == nil {
			browser = found
			break
		}
	}
	if browser == "" {
		const none = "looking for a browser: there is none: install Debian's package chromium"
		if os.Getenv("CI") == "" {
			t.Skip(none)
		}
		t.Fatal(none)
	}
	command := exec.CommandContext(t.Context(), browser, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--window-size=1400,1000", "--virtual-time-budget=600000", "--user-data-dir=" + t.TempDir(), "--dump-dom",
	}, arguments...)...)
	said, err := command.Output()
	if err != nil {
		t.Fatalf("running the browser: %v", err)
	}
	return string(said)
}
