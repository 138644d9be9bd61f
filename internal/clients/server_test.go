package clients_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/clients"
)

// Two clients of one server may write its address in different ways.
func TestTheURLOfAServerCanBeCompared(t *testing.T) {
	for host, want := range map[string]string{
		"https://API.example.com":            "https://api.example.com",
		"https://api.example.com:443/":       "https://api.example.com",
		"https://api.example.com:6443":       "https://api.example.com:6443",
		"http://[fd00::1]:80":                "http://[fd00::1]",
		"https://gateway:443/k8s/clusters/A": "https://gateway/k8s/clusters/A",
		"https://api.example.com:80":         "https://api.example.com:80",
	} {
		client, err := kubernetes.NewForConfig(&rest.Config{Host: host})
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(clients.ServerOf(client.CoreV1().Pods(""))).To(Equal(want))
	}
}
