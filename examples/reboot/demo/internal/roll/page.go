package roll

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// anyPort is a loopback address with a port that the kernel chooses. Each
// controller serves its probes, metrics and page there.
const anyPort = "127.0.0.1:0"

// served matches the line of a log that contains the chosen port.
var served = regexp.MustCompile(`serving status.*(127\.0\.0\.1:[0-9]+)`)

// announce waits until a controller's log contains the address of the
// controller's page, and then shows the address. It gives up if the controller
// ends.
func (r *roll) announce(ctx context.Context, controller *process) {
	for pause(ctx, 100*time.Millisecond) == nil {
		log, err := os.ReadFile(filepath.Join(r.dir, controller.name+".log"))
		if match := served.FindSubmatch(log); err == nil && match != nil {
			r.show.say("%s shows what it does at http://%s/debug/homeostat", controller.name, match[1])
			return
		}
		select {
		case <-controller.done:
			return
		default:
		}
	}
}
