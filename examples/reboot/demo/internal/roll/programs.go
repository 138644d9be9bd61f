package roll

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// operator is the operator's import path.
const operator = "github.com/homeostat/homeostat/examples/reboot/"

// programs are the paths of what is run.
type programs struct{ controller, agent, definition string }

// build builds the operator's programs into dir.
func build(ctx context.Context, dir string) (programs, error) {
	p := programs{controller: filepath.Join(dir, "controller"), agent: filepath.Join(dir, "agent")}
	for program, path := range map[string]string{"controller": p.controller, "agent": p.agent} {
		out, err := exec.CommandContext(ctx, "go", "build", "-o", path, operator+program).CombinedOutput()
		if err != nil {
			return p, fmt.Errorf("building the %s: %w: %s", program, err, out)
		}
	}
	folder, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", operator+"deploy").Output()
	if err != nil {
		return p, fmt.Errorf("finding the definition of RebootGroup: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "crd.yaml"))
	if err != nil {
		return p, fmt.Errorf("finding the definition of RebootGroup: %w", err)
	}
	p.definition = string(text)
	return p, nil
}
