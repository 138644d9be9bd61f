package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/observe/internal/argument"
	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/examples/observe/internal/known"
	"github.com/homeostat/homeostat/examples/observe/internal/observer"
	"github.com/homeostat/homeostat/examples/observe/internal/resource"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// noLimit is a time limit that is never reached.
const noLimit = time.Duration(math.MaxInt64 / 4)

// observe runs until ctx ends, until too many commands have failed, or, with
// --once, until no work is left.
func (s *settings) observe(ctx context.Context, stdout, stderr *command.Output) error {
	format := s.output
	if format == "json" {
		format = string(argument.JSONPath)
	}
	arguments, err := argument.Parse(format, s.templateTexts(), !s.allowMissing)
	if err != nil {
		return err
	}
	config, namespace, err := s.connection.config()
	if err != nil {
		return err
	}
	if s.allNamespaces {
		namespace = ""
	}
	found, err := s.find(ctx, config, namespace)
	if err != nil {
		return err
	}
	if !found.Namespaced {
		namespace = ""
	}
	environment := command.Environment(s.env)
	options := s.options(found, arguments, environment)
	if options.Controller.Leader, err = s.leader(config, found); err != nil {
		return err
	}
	runner := &command.Runner{Env: environment, Timeout: s.timeout, Stdout: stdout, Stderr: stderr}
	progress := observer.Progress{JSON: s.output == "json"}
	if progress.JSON {
		runner.Stdout = stderr // standard output has only JSON objects
	}
	if !s.quiet {
		progress.Out = stdout
	}
	o, err := s.observer(config, found, namespace, runner, progress, options)
	if err != nil {
		return err
	}
	err = s.serve(ctx, config, o, runner.Stdout)
	summary := o.Summary()
	if s.runOnce && err == nil && summary.Keys == 0 && !s.quiet {
		_, _ = fmt.Fprintln(stderr, "Nothing to sync, exiting immediately")
	}
	progress.Sum(summary, stderr)
	return err
}

func (s *settings) options(found resource.Resource, arguments argument.List, environment []string) observer.Options {
	o := observer.Options{
		Each: s.command, Delete: s.delete, Namespaced: found.Namespaced,
		Arguments: arguments, LeadingDashes: s.allowLeadingDashes,
		TypeVariable: s.typeVariable, ObjectVariable: s.objectVariable, Identity: s.identity, Stdin: s.stdin,
		MaxErrors: s.maximumErrors, RetryCount: s.retryCount, RetryExitCode: s.retryOnExitCode,
		Once: s.runOnce, DryRun: s.dryRun,
		Controller: reconcile.Options{
			Workers: s.workers, ReconcileTimeout: noLimit, Grace: max(s.gracePeriod, 1),
			Resync: s.resync, MinInterval: s.minInterval,
			Group: func(key reconcile.Key) string { return key.Namespace },
		},
	}
	if len(s.names) > 0 {
		o.Names = known.Command(known.Format{ClusterScoped: !found.Namespaced}, environment, s.names[0], s.names[1:]...)
		o.Controller.Sweep = s.sweep()
	}
	return o
}

// sweep returns the options for comparing the known names with the objects.
func (s *settings) sweep() *names.Options {
	o := &names.Options{Period: s.resync, Timeout: cmp.Or(s.timeout, noLimit), Refused: advise}
	switch {
	case s.maxOrphans > 0:
		o.MaxCount, o.MaxShare = s.maxOrphans, math.SmallestNonzeroFloat64 // the share does not limit the count
	case s.maxOrphans < 0:
		o.MaxShare = 1
	}
	return o
}

// advise adds advice to the error about a refused sweep: the flag that allows
// the sweep.
func advise(e *names.RefusedError) {
	e.Advice = fmt.Sprintf("if that is right, start once with --max-orphans=%d", e.Orphans)
}

// observer returns an observer of whole objects if an option needs their
// content, and of their metadata otherwise.
func (s *settings) observer(config *rest.Config, found resource.Resource, namespace string,
	runner observer.Runner, p observer.Progress, o observer.Options,
) (*observer.Observer, error) {
	if len(o.Arguments) == 0 && !s.stdin && s.objectVariable == "" {
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("making a client: %w", err)
		}
		objects := client.Resource(found.GroupVersionResource)
		return observerOf(s, found, namespace, runner, p, o, func(ns string) metadataClient {
			return informer.Untyped(objects.Namespace(ns))
		})
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	objects := client.Resource(found.GroupVersionResource)
	return observerOf(s, found, namespace, runner, p, o, func(ns string) dynamicClient {
		return informer.Untyped(objects.Namespace(ns))
	})
}

type (
	metadataClient = informer.Client[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]
	dynamicClient  = informer.Client[*unstructured.Unstructured, *unstructured.UnstructuredList]
)

func observerOf[T informer.Object, L runtime.Object](
	s *settings, found resource.Resource, namespace string,
	runner observer.Runner, p observer.Progress, o observer.Options, client func(namespace string) informer.Client[T, L],
) (*observer.Observer, error) {
	options := &informer.Options{
		Name: found.Resource, Kind: found.Kind, LabelSelector: s.selector, FieldSelector: s.fieldSelector,
		DropManagedFields: true, // kubectl does not show them either
	}
	if namespace != "" {
		options.Namespaces = []string{namespace}
	}
	objects := informer.ForNamespaces(client, options)
	return observer.New(objects, func(ns string) observer.Getter[T] { return client(ns) }, runner, p, o)
}

func (s *settings) leader(config *rest.Config, found resource.Resource) (reconcile.Leader, error) {
	if !s.leaderElect || s.dryRun {
		return nil, nil //nolint:nilnil // without an election, there is no leader
	}
	namespace, name, _ := strings.Cut(s.lease, "/")
	client, err := leader.Client(config)
	if err != nil {
		return nil, err
	}
	identity, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the host name for the leader election: %w", err)
	}
	elector, err := leader.New(leader.Lease{
		Client:    client,
		Namespace: cmp.Or(namespace, os.Getenv("POD_NAMESPACE"), "default"),
		Name:      cmp.Or(name, observer.Name+"-"+found.Resource),
		Identity:  identity,
	}, &s.durations)
	if err != nil {
		return nil, fmt.Errorf("preparing the leader election: %w", err)
	}
	return elector, nil
}

// errExitAfter is the cause of the end of an observer with --exit-after.
var errExitAfter = errors.New("the time given by --exit-after has passed")
