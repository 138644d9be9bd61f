package observer

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/homeostat/homeostat/names"
)

// knownNames lists names, retries where possible, and counts.
type knownNames struct {
	lister  names.Lister
	options *Options
	counts  *counts
}

func (k knownNames) Names(ctx context.Context) (all []names.Name, err error) {
	err = k.options.repeat(func() error {
		began := time.Now()
		all, err = k.lister.Names(ctx)
		k.counts.listed(err, time.Since(began))
		return err
	}, func(err error) { sayRetry(ctx, err) })
	return all, err
}

// repeat calls f, and again at once as long as its error is that of a run which
// ended with RetryExitCode, RetryCount times at most; again is called before.
func (o *Options) repeat(f func() error, again func(error)) error {
	err := f()
	for range o.RetryCount {
		if code, ok := exitCode(err); !ok || code == 0 || code != o.RetryExitCode {
			break
		}
		again(err)
		err = f()
	}
	return err
}

// sayRetry says, in words that users of oc observe look for, that a command is
// repeated at once.
func sayRetry(ctx context.Context, err error) {
	if code, ok := exitCode(err); ok {
		logr.FromContextOrDiscard(ctx).V(4).Info(fmt.Sprintf("retrying command: exit status %d", code))
	}
}
