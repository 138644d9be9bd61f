#!/bin/sh
# create.sh NAMESPACE NAME PORT
# Keeps an Ingress of the same namespace and name for a Service. One that is not ours is left alone.
set -eu
[ -n "$3" ] || exec "$(dirname "$0")/delete.sh" "$1" "$2" # no port any more, nothing to reach
found=$(kubectl -n "$1" get ingress "$2" --ignore-not-found -o 'jsonpath={.kind} {.metadata.labels.fromservice}')
case $found in
"" | "Ingress true") ;;
*)
	echo "Ingress $1/$2 is not ours" >&2
	exit 0
	;;
esac
kubectl apply -f - <<YAML
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  namespace: $1
  name: $2
  labels:
    fromservice: "true"
spec:
  rules:
    - host: $2.$1.${DOMAIN:-example.com}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: $2
                port:
                  number: $3
YAML
