package roll

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat/homeostat/examples/reboot/demo/internal/witness"
	"github.com/homeostat/homeostat/examples/reboot/deploy"
)

const (
	frameInterval = 100 * time.Millisecond
	// afterglow is how long the witness continues to watch after the last
	// release.
	afterglow = 2 * time.Second
)

// A roll is the state of one run.
type roll struct {
	options     Options
	dir         string
	cluster     *cluster
	spawner     *spawner
	show        *show
	witness     *witness.Witness
	controllers []*process
	machines    []*machine

	mu        sync.Mutex // guards the fields below
	mostSlots int
	faults    []string
}

// Run reboots all nodes with the operator, and returns a verdict. It returns an
// error if the demo itself fails, for example because a process cannot be
// started, or if ctx has ended. It keeps the logs of all processes if the
// operator has broken a promise or the demo has failed, but not if ctx has
// ended.
func Run(ctx context.Context, o *Options) (verdict Verdict, err error) {
	options := o.withDefaults()
	if err := options.validate(); err != nil {
		return Verdict{}, fmt.Errorf("running the reboot demo: %w", err)
	}
	dir, err := os.MkdirTemp("", "reboot-demo-")
	if err != nil {
		return Verdict{}, fmt.Errorf("running the reboot demo: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, options.Timeout)
	defer cancel()
	r, err := prepare(options, dir)
	if err == nil {
		verdict, err = r.play(bounded)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	switch {
	case err != nil && (r == nil || ctx.Err() != nil):
		return verdict, errors.Join(fmt.Errorf("running the reboot demo: %w", err), os.RemoveAll(dir))
	case err != nil || !verdict.Good():
		r.show.say("the logs of all processes are in %s", dir)
		return verdict, err
	default:
		return verdict, os.RemoveAll(dir)
	}
}

// prepare returns a roll with its cluster and its machines. It does not start
// processes.
func prepare(o Options, dir string) (*roll, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	r := &roll{options: o, dir: dir, show: newShow(o.Out, o.Table)}
	if r.cluster, err = newCluster(config); err != nil {
		return nil, err
	}
	if r.witness, err = witness.New(config, GroupName); err != nil {
		return nil, err
	}
	for i := range o.Nodes {
		m, err := newMachine(fmt.Sprintf("node-%02d", i+1), r.dir, r.cluster)
		if err != nil {
			return nil, err
		}
		m.start, m.say = r.startAgent, r.show.say
		r.machines = append(r.machines, m)
	}
	return r, nil
}

func (r *roll) names() []string {
	var names []string
	for _, m := range r.machines {
		names = append(names, m.name)
	}
	return names
}

func (r *roll) startAgent(m *machine) (*process, error) {
	return r.spawner.start("agent-"+m.name, r.options.Program, "agent",
		"--kubeconfig", r.options.Kubeconfig, "--node", m.name, "--boot-id-file", m.bootIDFile(),
		"--reboot-method", "command", "--reboot-command", "touch "+m.rebootFile(),
		"--drain-period", "500ms", "--listen-addr", "")
}

// play starts all processes, requests the reboots, waits until the operator has
// rebooted all nodes, and stops all processes.
func (r *roll) play(ctx context.Context) (verdict Verdict, err error) {
	spawning, stopSpawning := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSpawning()
	r.spawner = newSpawner(spawning, r.dir)
	if !r.options.Simulated { // the simulated server already serves RebootGroups
		if err := r.cluster.install(ctx, deploy.Manifest("crd.yaml")); err != nil {
			return verdict, err
		}
	}
	if err := r.cluster.furnish(ctx, r.names(), r.options.Max); err != nil {
		return verdict, err
	}
	defer func() { err = errors.Join(err, r.end(ctx)) }()
	watching, stopWatching := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer stopWatching()
	started := make(chan struct{})
	background.Go(func() { r.witness.Run(watching, func() { close(started) }) })
	<-started
	if err := r.startControllers(); err != nil {
		return verdict, err
	}
	for _, c := range r.controllers {
		background.Go(func() { r.announce(watching, c) })
	}
	for _, m := range r.machines {
		background.Go(func() {
			if err := m.run(watching); err != nil {
				r.fault("machine %s: %v", m.name, err)
			}
		})
	}
	return r.ask(ctx)
}

func (r *roll) startControllers() error {
	for i := range r.options.Controllers {
		p, err := r.spawner.start("controller-"+strconv.Itoa(i+1), r.options.Program, "controller",
			"--kubeconfig", r.options.Kubeconfig, "--listen-addr", anyPort)
		if err != nil {
			return err
		}
		r.controllers = append(r.controllers, p)
	}
	return nil
}

// ask waits until all nodes are Ready, requests their reboots, waits until all
// nodes have rebooted, and returns the verdict. Meanwhile it deletes the
// disruption budget once it has refused an eviction and, unless Options.Calm is
// set, kills processes.
func (r *roll) ask(ctx context.Context) (Verdict, error) {
	r.show.say("waiting for %d nodes to be Ready", r.options.Nodes)
	if err := r.await(ctx, r.allReady); err != nil {
		return Verdict{}, fmt.Errorf("waiting for the nodes to be Ready: %w", err)
	}
	r.show.say("requesting a reboot of every node, with %d controllers and %d agents", len(r.controllers), len(r.machines))
	if err := r.cluster.populate(ctx, r.names(), r.options.Simulated); err != nil {
		return Verdict{}, err
	}
	began := time.Now()
	for _, name := range r.names() {
		if err := r.cluster.ask(ctx, name); err != nil {
			return Verdict{}, err
		}
	}
	rampage, stopRampage := context.WithCancel(ctx)
	defer stopRampage()
	killed := make(chan []string, 1)
	go func() {
		if r.options.Calm {
			killed <- nil
			return
		}
		killed <- r.chaos(rampage)
	}()
	refused := make(chan string, 1)
	go func() {
		text, err := r.unblock(rampage)
		if err != nil {
			r.fault("the drain that the disruption budget must block for a while: %v", err)
		}
		refused <- text
	}()
	if err := r.await(ctx, r.allDone); err != nil {
		r.fault("not all nodes were rebooted in time: %v", err)
	}
	elapsed := time.Since(began)
	stopRampage()
	victims, text := <-killed, <-refused
	if left, err := r.cluster.leftovers(context.WithoutCancel(ctx)); err != nil || len(left) > 0 {
		r.fault("Pods that were not evicted: %v (error: %v)", left, err)
	}
	if ctx.Err() == nil {
		_ = pause(ctx, afterglow) // The verdict reports the end of ctx.
	}
	verdict := r.judge(elapsed, victims)
	verdict.Refused = text
	return verdict, nil
}

// await waits until the condition is true. Meanwhile it draws the progress.
func (r *roll) await(ctx context.Context, condition func() bool) error {
	for {
		r.draw()
		if condition() {
			return nil
		}
		if err := pause(ctx, frameInterval); err != nil {
			return err
		}
	}
}

// end deletes the objects of the roll while a controller still runs, and then
// stops the controllers.
func (r *roll) end(ctx context.Context) error {
	err := r.cluster.tidy(ctx, r.names())
	var alive []*process
	for _, p := range r.controllers {
		select {
		case <-p.done:
		default:
			alive = append(alive, p)
		}
	}
	return errors.Join(err, stopAll(alive))
}

func (r *roll) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}
