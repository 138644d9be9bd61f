package observer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/names"
)

// knownNames lists names, repeats what may be repeated, and counts.
type knownNames struct {
	names.UIDLister

	options *Options
	counts  *counts
}

func (k knownNames) Names(ctx context.Context) ([]types.NamespacedName, error) {
	return k.UIDLister.Names(ctx)
}

func (k knownNames) NamesWithUIDs(ctx context.Context) (all []names.Name, err error) {
	err = k.options.repeat(func() error {
		began := time.Now()
		all, err = k.UIDLister.NamesWithUIDs(ctx)
		k.counts.listed(err, time.Since(began))
		return err
	}, func() {})
	return all, err
}

// repeat calls f, and again at once as long as its error is that of a run which
// ended with RetryExitCode, RetryCount times at most; again is called before.
func (o *Options) repeat(f func() error, again func()) error {
	err := f()
	for range o.RetryCount {
		if code, ok := exitCode(err); !ok || code == 0 || code != o.RetryExitCode {
			break
		}
		again()
		err = f()
	}
	return err
}
