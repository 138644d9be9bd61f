package observer

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/homeostat/homeostat/names"
)

// knownNames is a [names.Lister] that gets the names from another lister. It
// calls that lister again if its program ends with RetryExitCode, and measures
// how long each call takes.
type knownNames struct {
	lister  names.Lister
	options *Options
	counts  *counts
}

func (k knownNames) Names(ctx context.Context) (found []names.Name, err error) {
	err = k.options.repeat(func() error {
		began := time.Now()
		found, err = k.lister.Names(ctx)
		k.counts.listed(err, time.Since(began))
		return err
	}, func(err error) { sayRetry(ctx, err) })
	return found, err
}

// repeat calls f. If f ends with RetryExitCode, repeat calls it again at once,
// up to RetryCount times. It calls onRetry before each repetition.
func (o *Options) repeat(f func() error, onRetry func(error)) error {
	err := f()
	for range o.RetryCount {
		if code, ok := exitCode(err); !ok || code == 0 || code != o.RetryExitCode {
			break
		}
		onRetry(err)
		err = f()
	}
	return err
}

// sayRetry logs that a command is repeated at once. It uses the same words as
// oc observe, because users may search for them.
func sayRetry(ctx context.Context, err error) {
	if code, ok := exitCode(err); ok {
		logr.FromContextOrDiscard(ctx).V(4).Info(fmt.Sprintf("retrying command: exit status %d", code))
	}
}
