package roll

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// anyPort lets each controller serve its probes, metrics and page to this
// machine, at a port that the kernel chooses.
const anyPort = "127.0.0.1:0"

// served is the line of a log that says which port that is.
var served = regexp.MustCompile(`serving status.*(127\.0\.0\.1:[0-9]+)`)

// announce says where the page of a controller is, as soon as its log does.
func (r *roll) announce(ctx context.Context, controller *process) {
	for pause(ctx, 100*time.Millisecond) == nil {
		log, err := os.ReadFile(filepath.Join(r.dir, controller.name+".log"))
		if at := served.FindSubmatch(log); err == nil && at != nil {
			r.show.say("%s shows what it does at http://%s/debug/homeostat", controller.name, at[1])
			return
		}
		select {
		case <-controller.done:
			return
		default:
		}
	}
}
