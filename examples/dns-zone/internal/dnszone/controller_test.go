package dnszone_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/examples/dns-zone/internal/dnszone"
	"github.com/homeostat/homeostat/examples/dns-zone/internal/zonefile"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

const skeleton = "@ IN SOA ns.example.com. admin.example.com. 1 1h 15m 30d 1h\n" +
	"@ NS ns\n" +
	"ns A 192.0.2.1 ; ours it is not\n"

// with returns the skeleton with a serial and the records of Services in d:
// "web 10.0.1.1".
func with(serial int, records ...string) string {
	text := strings.Replace(skeleton, " 1 1h", fmt.Sprintf(" %d 1h", serial), 1)
	for _, record := range records {
		name, address, _ := strings.Cut(record, " ")
		text += fmt.Sprintf("%s.d.example.com. 60 IN A %s ; managed-by=dns-zone d/%s\n", name, address, name)
	}
	return text
}

func zone(directory string) *zonefile.File {
	path := filepath.Join(directory, "db.example.com")
	if err := os.WriteFile(path, []byte(skeleton), 0o600); err != nil {
		panic(err)
	}
	return &zonefile.File{Path: path, Origin: "example.com."}
}

func maker(file *zonefile.File) stage.Maker {
	return func(env operator.Env) (*reconcile.Controller, error) {
		return dnszone.New(env.Cluster.Client(), file, &dnszone.Options{Events: env.Events})
	}
}

// A world has a zone file and Services in the namespace d.
type world struct {
	*stage.World
	file *zonefile.File
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	directory := t.TempDir()
	stage.Simulate(t, nil, func(w *stage.World) { f(&world{w, zone(directory)}) })
}

func (w *world) start() (stop func()) {
	w.T.Helper()
	run := w.Start(maker(w.file))
	return func() {
		w.T.Helper()
		w.Expect(run.Stop()).To(Succeed())
	}
}

// text returns the file once everything is at rest.
func (w *world) text() string {
	w.T.Helper()
	w.Writes()
	text, err := os.ReadFile(w.file.Path)
	w.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func service(name string, ips ...string) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIPs: ips, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if len(ips) > 0 {
		s.Spec.ClusterIP = ips[0]
	}
	return s
}

func (w *world) create(s *corev1.Service) {
	w.T.Helper()
	_, err := w.User.CoreV1().Services("d").Create(w.T.Context(), s, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *world) goes(name string) {
	w.T.Helper()
	w.Expect(w.User.CoreV1().Services("d").Delete(w.T.Context(), name, metav1.DeleteOptions{})).To(Succeed())
}

func TestServicesWithAnIPHaveRecords(t *testing.T) {
	inWorld(t, func(w *world) {
		var asked []string // about which Services, one by one
		w.Tap.Before = func(r *http.Request) *http.Response {
			if name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/d/services/"); ok {
				asked = append(asked, name)
			}
			return nil
		}
		w.start()
		w.create(service("web", "10.0.1.1"))
		w.Expect(w.text()).To(Equal(with(2, "web 10.0.1.1")))
		w.create(service("headless", "None"))
		external := service("external")
		external.Spec.Type, external.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.org"
		w.create(external)
		w.Expect(w.Sim.Load(service("both", "10.0.1.2", "fd00::2"))).To(Succeed(), "the simulated server has one family")
		w.Expect(w.text()).To(Equal(strings.Replace(with(3, "both 10.0.1.2", "both fd00::2", "web 10.0.1.1"),
			"A fd00", "AAAA fd00", 1)))
		w.goes("both")
		w.Expect(w.text()).To(Equal(with(4, "web 10.0.1.1")))
		w.Pass(time.Hour)
		w.Expect(w.text()).To(Equal(with(4, "web 10.0.1.1")), "an hour of resyncs and sweeps changes nothing")
		w.Expect(asked).To(Equal([]string{"both"}), "only before its records were removed")
	})
}

func TestAServiceThatIsBeingDeletedHasNoRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		held := service("web", "10.0.1.1")
		held.Finalizers = []string{"example.com/drain"}
		w.create(held)
		w.Expect(w.text()).To(Equal(with(2, "web 10.0.1.1")))
		w.goes("web")
		w.Expect(w.text()).To(Equal(with(3)))
	})
}

func TestARecordStaysUntilTheServerHasSaidThatItsServiceIsDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		const path = "/api/v1/namespaces/d/services/web"
		w.Tap.Before = wiretap.For(3*time.Second, http.MethodGet, path, func(r *http.Request) *http.Response {
			return wiretap.Refuse(r, apierrors.NewForbidden(corev1.Resource("services"), "web", nil))
		})
		run := w.Start(maker(w.file))
		w.create(service("web", "10.0.1.1"))
		w.text()
		w.goes("web")
		w.Expect(w.text()).To(Equal(with(2, "web 10.0.1.1")))
		w.Expect(run.Status(1).Keys).To(ConsistOf(HaveField("Failure", ContainSubstring("forbidden"))))
		w.Pass(50 * time.Second)
		w.Expect(w.text()).To(Equal(with(3)), "before the next resync or sweep")
	})
}

func TestOnlyRecordsOfServicesDeletedWhileDownAreRemoved(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		for i, name := range []string{"a", "b", "c"} {
			w.create(service(name, fmt.Sprint("10.0.1.", i)))
		}
		w.Expect(w.text()).To(Equal(with(4, "a 10.0.1.0", "b 10.0.1.1", "c 10.0.1.2")))
		stop()
		w.goes("b")
		w.start()
		w.Pass(time.Minute)
		w.Expect(w.text()).To(Equal(with(5, "a 10.0.1.0", "c 10.0.1.2")))
	})
}

// The first list after a restart is from before the Services came.
func TestAStaleListRemovesNothingThatIsLive(t *testing.T) {
	inWorld(t, func(w *world) {
		empty, err := w.User.CoreV1().RESTClient().Get().AbsPath("/api/v1/services").DoRaw(t.Context())
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.start()
		w.create(service("a", "10.0.1.1"))
		w.create(service("b", "10.0.1.2"))
		w.text()
		stop()
		w.goes("b")
		mute := wiretap.Mute("/api/v1/services")
		var asked atomic.Int32
		w.Tap.Before = func(r *http.Request) *http.Response {
			if r.URL.Path == "/api/v1/services" && !wiretap.IsWatch(r) {
				return wiretap.Answer(r, http.StatusOK, empty)
			}
			if strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/d/services/") {
				asked.Add(1)
			}
			return mute(r)
		}
		w.start()
		w.Pass(time.Minute)
		w.Expect(w.text()).To(Equal(with(4, "a 10.0.1.1")))
		w.Expect(asked.Load()).To(BeNumerically(">=", int32(2)))
	})
}

func TestTheSafetyLimitHoldsWhenAlmostAllWouldBeDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		var records []string
		for i := range 20 {
			name, address := fmt.Sprintf("s%02d", i), fmt.Sprint("10.0.1.", i)
			records = append(records, name+" "+address)
			_, err := w.file.Set(t.Context(), reconcile.Key{Namespace: "d", Name: name}, addresses(address))
			w.Expect(err).NotTo(HaveOccurred())
		}
		run := w.Start(maker(w.file))
		w.Pass(time.Hour)
		w.Expect(w.text()).To(Equal(with(21, records...)))
		w.Expect(run.Sweep().Ready()).NotTo(Succeed())
	})
}

func TestAnEditOfTheFileIsUndone(t *testing.T) {
	for name, c := range map[string]struct {
		edit, want string
	}{
		"a record removed":    {with(9), with(10, "web 10.0.1.1")},
		"an address edited":   {with(9, "web 10.0.1.9"), with(10, "web 10.0.1.1")},
		"a record duplicated": {with(9, "web 10.0.1.1", "web 10.0.1.1"), with(10, "web 10.0.1.1")},
		"the serial set back": {with(0), with(3, "web 10.0.1.1")},
		"foreign text added":  {with(9, "web 10.0.1.1") + "x A 192.0.2.7\n", with(9, "web 10.0.1.1") + "x A 192.0.2.7\n"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start()
				w.create(service("web", "10.0.1.1"))
				w.Expect(w.text()).To(Equal(with(2, "web 10.0.1.1")))
				w.Expect(os.WriteFile(w.file.Path, []byte(c.edit), 0o600)).To(Succeed())
				w.Pass(2 * dnszone.DefaultResync)
				w.Expect(w.text()).To(Equal(c.want))
			})
		})
	}
}

func TestAReconcileFailsWhileTheFileCannotBeParsed(t *testing.T) {
	inWorld(t, func(w *world) {
		run := w.Start(maker(w.file))
		w.Expect(os.WriteFile(w.file.Path, []byte("nothing\n"), 0o600)).To(Succeed())
		w.create(service("web", "10.0.1.1"))
		w.create(service("headless", "None"))
		w.Expect(w.text()).To(Equal("nothing\n"))
		for _, key := range run.Status(2).Keys {
			w.Expect(key.Failure).To(ContainSubstring("there is no SOA record"), key.Key.Name)
		}
		w.Expect(run.Stats()).To(HaveField("Failing", 2))
		w.Expect(os.WriteFile(w.file.Path, []byte(with(1)), 0o600)).To(Succeed())
		w.Pass(10 * time.Minute)
		w.Expect(w.text()).To(Equal(with(2, "web 10.0.1.1")))
	})
}

func TestOptionsAreChecked(t *testing.T) {
	file := zone(t.TempDir())
	file.Origin, file.TTL = "example.com", -1
	_, err := dnszone.New(nil, file, nil)
	NewWithT(t).Expect(err).To(MatchError(And(
		ContainSubstring(`File.Origin (--origin) is "example.com"`), ContainSubstring("File.TTL (--ttl) is -1"))))
	file.Origin, file.TTL = "Example.com.", 0
	_, err = dnszone.New(nil, file, nil)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`File.Origin (--origin) is "Example.com."`)))
	file.Origin = "x" + strings.Repeat("long.", 25)
	_, err = dnszone.New(fake.NewClientset(), file, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "125 bytes")
	file.Origin = "x" + file.Origin
	_, err = dnszone.New(fake.NewClientset(), file, nil)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("must be a domain of at most 125 bytes")))
	_, err = dnszone.New(nil, &zonefile.File{Path: "/none/db", Origin: "example.com."}, nil)
	NewWithT(t).Expect(err).To(MatchError(os.ErrNotExist))
	_, err = dnszone.New(nil, &zonefile.File{Origin: "example.com."}, nil)
	NewWithT(t).Expect(err).To(MatchError(HaveSuffix(
		`making controller "dns-zone": File.Path (--zone) is empty: must be the path of the zone file`)))
}

func addresses(all ...string) (parsed []netip.Addr) {
	for _, a := range all {
		parsed = append(parsed, netip.MustParseAddr(a))
	}
	return parsed
}

func TestASweepThatIsRefusedNamesTheFlag(t *testing.T) {
	inWorld(t, func(w *world) {
		var records strings.Builder
		for i := range 20 {
			fmt.Fprintf(&records, "s%d.d.example.com. 60 IN A 10.0.1.9 ; managed-by=dns-zone d/s%d\n", i, i)
		}
		w.Expect(os.WriteFile(w.file.Path, []byte(skeleton+records.String()), 0o600)).To(Succeed())
		defer w.start()()
		w.Expect(w.Events.Events).To(Receive(And(ContainSubstring("20 of 20 known names"),
			HaveSuffix("start once with --confirm-orphans=20"))))
	})
}
