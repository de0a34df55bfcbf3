{{- define "pilotis.name" -}}
{{- printf "%s" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "pilotis.labels" -}}
{{ include "pilotis.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "pilotis.selector" -}}
app.kubernetes.io/name: pilotis
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pilotis.check" -}}
{{- if and (eq .Values.database "embedded") (gt (int .Values.replicas) 1) -}}
{{- fail "replicas: the embedded database is that of one pod; set database to external for more" -}}
{{- end -}}
{{- end -}}

{{- define "pilotis.pod" -}}
metadata:
  labels:
    {{- include "pilotis.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- if .Values.userNamespace }}
  hostUsers: false
  {{- end }}
  terminationGracePeriodSeconds: {{ add .Values.drainSeconds 30 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    # Once: at each start the group would get rights on the database's files, and PostgreSQL then refuses them.
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: pilotis
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      env:
        - name: PILOTIS_BASE_URL
          value: {{ .Values.baseUrl | quote }}
        - name: PILOTIS_MASTER_KEY
          valueFrom:
            secretKeyRef:
              name: {{ .Values.existingSecret }}
              key: master-key
        {{- if eq .Values.database "external" }}
        - name: PILOTIS_DATABASE_URL
          valueFrom:
            secretKeyRef:
              name: {{ .Values.existingSecret }}
              key: database-url
        - name: PILOTIS_BLOB_STORE
          valueFrom:
            secretKeyRef:
              name: {{ .Values.existingSecret }}
              key: blob-store
        {{- end }}
        {{- if .Values.metrics.enabled }}
        - name: PILOTIS_METRICS_PORT
          value: {{ .Values.metrics.port | quote }}
        - name: PILOTIS_METRICS_HOST
          value: "0.0.0.0"
        {{- end }}
        {{- range $name, $value := .Values.settings }}
        - name: {{ $name }}
          value: {{ $value | quote }}
        {{- end }}
      ports:
        - name: http
          containerPort: 8090
        {{- if .Values.metrics.enabled }}
        - name: metrics
          containerPort: {{ .Values.metrics.port }}
        {{- end }}
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 2
        failureThreshold: 150
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 3
        timeoutSeconds: 3
      lifecycle:
        preStop:
          exec:
            command: [sleep, {{ .Values.drainSeconds | quote }}]
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - name: data
          mountPath: /data
        - name: tmp
          mountPath: /tmp
        {{- if eq .Values.database "embedded" }}
        - name: memory
          mountPath: /dev/shm
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if eq .Values.database "external" }}
    - name: data
      emptyDir: {}
    {{- else }}
    # What the processes of a query share; the 64 MB of a container are too little for some.
    - name: memory
      emptyDir:
        medium: Memory
        sizeLimit: {{ .Values.persistence.sharedMemory }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
