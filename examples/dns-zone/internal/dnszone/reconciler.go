package dnszone

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/dns-zone/internal/zonefile"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

type (
	request = reconcile.Request[*corev1.Service]
	result  = reconcile.Result
)

// reconciler reconciles the records of each Service.
type reconciler struct {
	client kubernetes.Interface
	file   *zonefile.File
}

// Reconcile brings the records of the request's Service to their desired state.
func (r *reconciler) Reconcile(ctx context.Context, request request) (result, error) {
	service, _ := request.Object()
	want := addressesOf(service)
	if len(want) == 0 {
		known, err := r.file.Keys(ctx)
		if err != nil || !slices.Contains(known, request.Key) {
			return result{}, err
		}
		live, _, err := names.Live(ctx, r.client.CoreV1().Services(request.Key.Namespace), request.Key.Name)
		if err != nil || len(addressesOf(live)) > 0 {
			return result{}, err // if err is nil, the cache is old: its next event causes a reconcile
		}
	}
	changed, err := r.file.Set(ctx, request.Key, want)
	if err != nil {
		return result{}, fmt.Errorf("setting the records of Service %q: %w", request.Key, err)
	}
	if changed {
		logr.FromContextOrDiscard(ctx).Info("wrote the records", "addresses", want)
	}
	return result{}, nil
}

// addressesOf returns the cluster IPs of a Service. It returns none for nil,
// for a Service that is being deleted or is of type ExternalName, and for a
// Service without IPs, such as a headless one.
func addressesOf(service *corev1.Service) []netip.Addr {
	if service == nil || service.DeletionTimestamp != nil || service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var addresses []netip.Addr
	for _, ip := range service.Spec.ClusterIPs {
		if address, err := netip.ParseAddr(ip); err == nil { // "None" is not an address
			addresses = append(addresses, address)
		}
	}
	return addresses
}
